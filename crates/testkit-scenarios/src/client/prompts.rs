//! Server requests and sessions.

use mcp_flow_client::host::Host;
use mcp_flow_client::interaction::{NextStep, PromptAnswer, ResponseOutcome};
use mcp_flow_client::{Client, Error, ErrorKind, Revision};
use serde_json::{Map, json};

use super::{Reach, Scripted, client, client_by};
use mcp_flow_testkit_fixture::Fixture;

async fn with(host: impl Host, reach: &Reach, fixture: &Fixture, revision: Revision) -> Client {
    client_by(Client::builder().host(host), reach, &fixture.server, revision).await
}

/// PAT-009, PAT-047, PAT-048, PAT-052: the host answers elicitation, sampling and roots, as server
/// requests or in rounds.
pub(crate) async fn the_host_answers_server_requests(reach: &Reach) {
    for revision in Revision::ALL {
        let host = Scripted::default();
        let client = with(host.clone(), reach, &Fixture::new(), revision).await;
        let said = client.call_tool("sample_text", json!({})).await.unwrap();
        assert_eq!(said.text(), "stub says: Paris", "{revision}");
        assert_eq!(host.seen(), ["fixture asks 1 messages"]);
        let roots = client.call_tool("list_roots", json!({})).await.unwrap();
        assert_eq!(roots.text(), "file:///work");
        if revision >= Revision::V2025_06_18 {
            let hello = client.call_tool("ask_name", json!({})).await.unwrap();
            assert_eq!(hello.text(), "Hello, Ada!");
            let both = client.call_tool("ask_twice", json!({})).await.unwrap();
            assert_eq!(both.text(), "Hello, Ada and Ada!");
            let all = client.call_tool("ask_all", json!({})).await.unwrap();
            assert_eq!(all.text(), "\"a\" Paris 1");
        }
        if revision >= Revision::V2025_11_25 {
            let gone = client.call_tool("ask_url", json!({})).await.unwrap();
            assert_eq!(gone.text(), "gone there");
        }
    }
}

/// C-33, PAT-047: a client without a host declares nothing, and declines server requests.
pub(crate) async fn a_client_without_a_host_declines_everything(reach: &Reach) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = client(reach, &Fixture::new().server, revision).await;
        for tool in ["ask_name", "sample_text", "list_roots"] {
            // As a failed tool or as an error, by revision.
            match client.call_tool(tool, json!({})).await {
                Ok(outcome) => assert!(outcome.is_error, "{tool}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Protocol, "{error}"),
            }
        }
    }
}

/// A request continues round by round, and its state is returned unchanged.
pub(crate) async fn rounds_continue_until_there_is_a_result(reach: &Reach) {
    let client = with(Scripted::default(), reach, &Fixture::new(), Revision::V2026_07_28).await;
    let outcome = client.call_tool("count_rounds", json!({})).await.unwrap();
    assert!(outcome.text().contains("file:///work"), "{}", outcome.text());
    let greeted = client.call_tool("ask_blocking", json!({})).await.unwrap();
    assert_eq!(greeted.text(), "Hello, Ada!");
}

/// INT-087, INT-093, INT-096: a whole session, with an answer validated by the client, one rejected
/// by the server, and the result.
pub(crate) async fn a_session_runs_to_its_end(reach: &Reach) {
    for revision in Revision::ALL {
        let fixture = Fixture::interactive();
        let host = Scripted::answering(["Ada", "no address", "ada@a.example"]);
        let client = with(host.clone(), reach, &fixture, revision).await;
        assert!(client.interaction_support().await.unwrap().unwrap().features.validation);
        let finished = client.run_flow("wizard", Map::new()).await.unwrap();
        assert!(finished.success, "{revision}");
        assert_eq!(finished.data, json!({"name": "Ada", "email": "ada@a.example"}));
        assert_eq!(finished.summary.as_deref(), Some("registered"));
        let seen = host.seen();
        assert_eq!(&seen[..2], ["Enter name", "Enter email"]);
        assert!(seen[2].starts_with("Enter email ("), "{seen:?}");

        let host = Scripted::answering(["f", "cod"]);
        host.then(PromptAnswer::Value(json!(3)));
        host.then(PromptAnswer::Cancel(Some("enough".to_owned())));
        let client = with(host, reach, &fixture, revision).await;
        let error = client.run_flow("kinds", Map::new()).await.unwrap_err();
        assert!(matches!(&error, Error::Denied(why) if why == "enough"), "{error}");
    }
}

/// A session stays at the server and is resumed by another client.
pub(crate) async fn a_session_is_resumed_by_another_client(reach: &Reach) {
    let fixture = Fixture::interactive();
    let first = client(reach, &fixture.server, Revision::V2025_11_25).await;
    let mut session = first.start_session("wizard", Map::new()).await.unwrap();
    let id = session.id().to_owned();
    let NextStep::Prompt(question) = session.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(question.key.as_deref(), Some("name"));
    assert_eq!(session.answer(json!("Ada")).await.unwrap(), ResponseOutcome::Accepted);
    drop(session);
    first.close().await;

    let second = client(reach, &fixture.server, Revision::V2026_07_28).await;
    let mut session = second.resume_session(&id);
    let NextStep::Prompt(question) = session.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(question.key.as_deref(), Some("email"));
    let wrong = session.answer(json!("nowhere")).await.unwrap();
    assert!(matches!(wrong, ResponseOutcome::Rejected(_)));
    assert_eq!(session.answer(json!("a@b.c")).await.unwrap(), ResponseOutcome::Accepted);
    let NextStep::Finished(finished) = session.next().await.unwrap() else { panic!("it ends") };
    assert_eq!(finished.data["email"], "a@b.c");
    let gone = second.start_session("no_such_tool", Map::new()).await.unwrap_err();
    assert_eq!(gone.server().unwrap().name(), Some("UNKNOWN_TOOL"));
}

/// INT-099, INT-100: without interaction, all answers are asked for first and given in one call.
pub(crate) async fn without_interaction_all_answers_are_asked_for_upfront(reach: &Reach) {
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let host = Scripted::answering([json!(2), json!("three"), json!(3)]);
        let client = with(host.clone(), reach, &Fixture::new(), revision).await;
        assert_eq!(client.interaction_support().await.unwrap(), None);
        let finished = client.run_flow("math.add", Map::new()).await.unwrap();
        assert_eq!(finished.summary.as_deref(), Some("5"));
        let seen = host.seen();
        assert_eq!((&seen[..2], seen.len()), (&["a".to_owned(), "b".to_owned()][..], 3));
        // A tool without prompts, on a server with interaction.
        let host = Scripted::answering([json!(1), json!(1)]);
        let client = with(host, reach, &Fixture::interactive(), revision).await;
        let finished = client.run_flow("math.add", Map::new()).await.unwrap();
        assert_eq!(finished.summary.as_deref(), Some("2"));
    }
}
