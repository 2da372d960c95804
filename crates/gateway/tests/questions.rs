//! Questions of upstreams to callers, in every combination of revisions.

use futures_util::future::{BoxFuture, join_all};
use mcp_flow_client::Host;
use mcp_flow_client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_scenarios::client::Scripted;
use serde_json::{Map, Value, json};

use crate::support::{ERAS, Setup, pairs};

#[tokio::test]
async fn every_question_reaches_the_caller() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client_with(client_revision, Scripted::default()).await;
        for (tool, answer) in [
            ("up.ask_name", "Hello, Ada!"),
            ("up.ask_twice", "Hello, Ada and Ada!"),
            ("up.ask_url", "gone there"),
            ("up.sample_text", "stub says: Paris"),
            ("up.list_roots", "file:///work"),
            ("up.ask_all", "\"a\" Paris 1"),
        ] {
            let outcome = client.call_tool(tool, json!({})).await.unwrap();
            assert_eq!(outcome.text(), answer, "{client_revision} {server} {tool}");
        }
    }
}

/// An upstream learns what the caller's client can do, and does without otherwise.
#[tokio::test]
async fn a_caller_that_cannot_be_asked_is_not_asked() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let client = setup.client(client_revision).await;
        let outcome = client.call_tool("up.ask_or_guess", json!({})).await.unwrap();
        assert_eq!(outcome.text(), "Hello, whoever!", "{client_revision} {server}");
    }
}

/// A host with a name of its own.
struct Named(String);

impl Host for Named {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            elicitation: Some(ElicitationCapability { form: true, url: false }),
            ..ClientCapabilities::default()
        }
    }

    fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async {
            // Others are asked meanwhile.
            tokio::task::yield_now().await;
            let name = Map::from_iter([("name".to_owned(), Value::from(self.0.clone()))]);
            ElicitAnswer::Accept(name)
        })
    }
}

/// No question reaches another caller, however many ask at the same time.
#[tokio::test]
async fn questions_reach_the_caller_they_are_for() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let setup = Setup::before(&fixture.server, server);
        let calls = (0..12).map(|number| {
            let setup = &setup;
            async move {
                let name = format!("caller {number}");
                let client = setup.client_with(client_revision, Named(name.clone())).await;
                for _ in 0..3 {
                    let outcome = client.call_tool("up.ask_twice", json!({})).await.unwrap();
                    assert_eq!(outcome.text(), format!("Hello, {name} and {name}!"));
                }
            }
        });
        join_all(calls).await;
    }
}

/// A stateless caller that repeats a turn gets the same outcome, and the upstream runs once.
#[tokio::test]
async fn a_repeated_turn_has_the_same_outcome() {
    let fixture = Fixture::new();
    let setup = Setup::before(&fixture.server, ERAS[0]);
    let client = setup.client_with(ERAS[1], Named(String::new())).await;
    let call = |responses: Value, state: Option<String>| {
        let responses = responses.as_object().cloned().unwrap();
        client.call_tool("up.ask_twice", json!({})).raw().round(responses, state)
    };
    let state = |result: &Value| Some(result["requestState"].as_str().unwrap().to_owned());
    let first = call(json!({}), None).await.unwrap();
    assert_eq!(first["resultType"], "input_required");
    // Without an answer the question is asked again.
    let again = call(json!({}), state(&first)).await.unwrap();
    assert_eq!(again["inputRequests"], first["inputRequests"]);
    let key = first["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({key: {"action": "accept", "content": {"name": "Ada"}}});
    let mut seconds = Vec::new();
    for _ in 0..3 {
        let second = call(answer.clone(), state(&first)).await.unwrap();
        assert_eq!(second["resultType"], "input_required", "{second}");
        seconds.push(second);
    }
    assert!(seconds.iter().all(|second| second["inputRequests"] == seconds[0]["inputRequests"]));
    let key = seconds[0]["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({key: {"action": "accept", "content": {"name": "Bob"}}});
    for second in &seconds {
        let done = call(answer.clone(), state(second)).await.unwrap();
        assert_eq!(done["content"][0]["text"], "Hello, Ada and Bob!");
    }
    // The first turn still has the outcome it had.
    let second = call(json!({}), state(&first)).await.unwrap();
    assert_eq!(second["inputRequests"], seconds[0]["inputRequests"]);
}

/// A parked call belongs to the arguments and the caller it was asked for.
#[tokio::test]
async fn the_state_of_a_parked_call_is_bound_to_its_request() {
    let fixture = Fixture::new();
    let setup = Setup::before(&fixture.server, ERAS[0]);
    let client = setup.client_with(ERAS[1], Named(String::new())).await;
    let asked = client.call_tool("up.ask_name", json!({})).raw().round(Map::new(), None);
    let asked = asked.await.unwrap();
    let state = asked["requestState"].as_str().unwrap().to_owned();
    let other = client.call_tool("up.ask_twice", json!({})).raw();
    let refused = other.round(Map::new(), Some(state)).await.unwrap_err();
    assert_eq!(refused.server().unwrap().code, -32602);
}
