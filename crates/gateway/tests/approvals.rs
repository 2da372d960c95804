//! Approvals: a person decides before a call is sent.

use futures_util::future::BoxFuture;
use mcp_flow_client::Host;
use mcp_flow_client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow_engine::model::store::{Filter, PageRequest, Phase};
use mcp_flow_engine::model::{MemoryStore, Owner};
use mcp_flow_engine::{Engine, SessionStatus};
use mcp_flow_gateway::{ApprovalRules, Gateway};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Map, json};
use std::sync::Arc;

use crate::support::{Setup, pairs, upstream};

/// A person that decides about every call, and fills in forms.
struct Person(bool);

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: false });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let Elicitation::Form { message, .. } = question else {
            return Box::pin(async { ElicitAnswer::Cancel });
        };
        let answer = match (message.contains("Allow"), self.0) {
            (true, true) => ElicitAnswer::Accept(Map::from_iter([("approve".into(), true.into())])),
            // Accepted without the field, it is not approved.
            (true, false) => ElicitAnswer::Accept(Map::new()),
            (false, _) => ElicitAnswer::Accept(Map::from_iter([("name".into(), "Ada".into())])),
        };
        Box::pin(async { answer })
    }
}

fn gateway(fixture: &Fixture, server: mcp_flow_client::Revision) -> (Setup, Engine) {
    let mut settings = upstream("up", &fixture.server, server);
    settings.approve = ApprovalRules::new(["*", "!up.who"]);
    let gateway = Gateway::new(vec![settings]).unwrap();
    let engine = Engine::builder(Arc::new(MemoryStore::new())).flow(gateway.flow()).start();
    gateway.keep_questions_in(&engine);
    (Setup::of(gateway), engine)
}

#[tokio::test]
async fn a_call_is_sent_only_when_a_person_approves_it() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let (setup, _) = gateway(&fixture, server);
        let client = setup.client_with(client_revision, Person(true)).await;
        let sum = client.call_tool("up.math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5", "{client_revision} {server}");
        let asked = client.call_tool("up.ask_name", json!({})).await.unwrap();
        assert_eq!(asked.text(), "Hello, Ada!", "{client_revision} {server}");
        let client = setup.client_with(client_revision, Person(false)).await;
        let refused = client.call_tool("up.math.add", json!({"a": 2, "b": 3})).await.unwrap_err();
        let error = refused.server().unwrap();
        assert_eq!(error.name(), Some("NOT_APPROVED"), "{client_revision} {server}");
        assert_eq!(error.data["server"], "up");
        client.call_tool("up.who", json!({})).await.unwrap();
    }
}

/// A call of a client that cannot be asked is approved by somebody else.
#[tokio::test]
async fn a_call_is_approved_in_its_session() {
    for (client_revision, server) in pairs() {
        for approved in [true, false] {
            let fixture = Fixture::new();
            let (setup, engine) = gateway(&fixture, server);
            let client = setup.client(client_revision).await;
            let call = client.call_tool("up.math.add", json!({"a": 2, "b": 3}));
            let call = tokio::spawn(call.into_future());
            let mut changes = engine.changes();
            let page = PageRequest { after: None, most: 9 };
            let session = loop {
                let listed = engine.list_all(Filter::default(), page).await.unwrap();
                match listed.into_iter().next() {
                    Some(session) => break session,
                    None => drop(changes.next().await),
                }
            };
            assert_eq!(session.summary.flow, "gateway.call");
            let owner = Owner::local();
            let view = engine.view(session.id, &owner).await.unwrap();
            let SessionStatus::Waiting(open) = &view.status else { panic!("{view:?}") };
            assert!(open.prompt.message.contains("up.math.add"), "{}", open.prompt.message);
            assert!(open.prompt.message.contains(r#"{"a":2,"b":3}"#), "{}", open.prompt.message);
            engine.respond(session.id, &owner, json!(approved).into()).await.unwrap();
            let outcome = call.await.unwrap();
            match approved {
                true => assert_eq!(outcome.unwrap().text(), "5"),
                false => {
                    let refused = outcome.unwrap_err();
                    assert_eq!(refused.server().unwrap().name(), Some("NOT_APPROVED"));
                }
            }
            assert_eq!(
                engine.list_all(Filter { owner: None, phase: Phase::Live }, page).await.unwrap(),
                []
            );
        }
    }
}

/// A question of an upstream is answered by somebody else while the client is asked as well.
#[tokio::test]
async fn a_question_is_answered_in_its_session() {
    for (client_revision, server) in pairs() {
        let fixture = Fixture::new();
        let (setup, engine) = gateway(&fixture, server);
        let client = setup.client_with(client_revision, Silent).await;
        let call = client.call_tool("up.ask_name", json!({}));
        let call = tokio::spawn(call.into_future());
        let (mut changes, owner) = (engine.changes(), Owner::local());
        let page = PageRequest { after: None, most: 9 };
        for answer in [json!(true), json!({"name": "Bob"})] {
            loop {
                let listed = engine.list(&owner, Phase::Waiting, page).await.unwrap();
                let Some(session) = listed.first() else {
                    drop(changes.next().await);
                    continue;
                };
                let view = engine.view(session.id, &owner).await.unwrap();
                if let SessionStatus::Waiting(open) = &view.status
                    && answer.is_boolean() == (open.key == "approval")
                {
                    engine.respond(session.id, &owner, answer.into()).await.unwrap();
                    break;
                }
                drop(changes.next().await);
            }
        }
        if client_revision.is_stateless() {
            // It holds the questions, and does not answer them.
            call.abort();
        } else {
            assert_eq!(call.await.unwrap().unwrap().text(), "Hello, Bob!", "{server}");
        }
    }
}

/// A client that can be asked and never answers.
struct Silent;

impl Host for Silent {
    fn capabilities(&self) -> ClientCapabilities {
        Person(true).capabilities()
    }

    fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(std::future::pending())
    }
}
