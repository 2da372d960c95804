//! Calls that a stateless upstream continues as tasks.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::Host;
use mcp_flow_client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow_engine::model::store::{PageRequest, Phase};
use mcp_flow_engine::model::{MemoryStore, Owner, SessionId};
use mcp_flow_engine::{AnswerRequest, Engine, SessionStatus, View};
use mcp_flow_gateway::Gateway;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Map, Value, json};

use crate::failures::{lists, script};
use crate::hostile::QUESTION;
use crate::support::{ERAS, Setup, upstream};

/// A person who fills in the fields of the fixture's flows.
struct Person;

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: false });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        asked: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let Elicitation::Form { schema, .. } = asked else {
            return Box::pin(async { ElicitAnswer::Cancel });
        };
        Box::pin(async move { ElicitAnswer::Accept(filled_in(&schema)) })
    }
}

fn filled_in(schema: &Value) -> Map<String, Value> {
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    let value = |schema: Value| match schema["type"].as_str() {
        Some("integer" | "number") => json!(7),
        Some("boolean") => json!(true),
        _ => json!("Ada"),
    };
    fields.into_iter().map(|(name, schema)| (name, value(schema))).collect()
}

/// Clients that know nothing of tasks get the result of a call that continues as one, and its status
/// as progress.
#[tokio::test]
async fn the_result_of_a_task_is_that_of_the_call() {
    for revision in ERAS {
        let fixture = Fixture::interactive();
        let setup = Setup::before(&fixture.server, ERAS[1]);
        let client = setup.client(revision).await;
        let mut call = client.call_tool("up.job", json!({})).start();
        within("the first report", call.next()).await.expect("the task is reported");
        fixture.gate.until_waiting(1).await;
        fixture.gate.release_one();
        let outcome = within("the task", call).await.unwrap();
        assert_eq!(outcome.text(), "done", "{revision}");
        let failed = within("the task", client.call_tool("up.broken_job", json!({})).into_future());
        let failed = failed.await.unwrap_err();
        let error = failed.server().unwrap();
        assert_eq!((error.code, error.name()), (-32603, Some("UPSTREAM_ERROR")), "{error}");
        setup.gateway.close().await;
    }
}

/// A tool of 2025-11-25 that is called only as a task works for every client as any other, with its
/// questions; if the call is cancelled, so is the task.
#[tokio::test]
async fn tools_that_require_tasks_work_with_earlier_upstreams() {
    let folder = tempfile::tempdir().unwrap();
    let (waiting, cancelled) = (folder.path().join("waiting"), folder.path().join("cancelled"));
    let reply = |result: &str| {
        format!(r#"printf '{{"jsonrpc":"2.0","id":%s,"result":{result}}}\n' "$(id "$line")""#)
    };
    let task = r#"{"task":{"taskId":"t1","status":"working","ttl":60000,"createdAt":"2025-11-25T00:00:00Z","lastUpdatedAt":"2025-11-25T00:00:00Z"}}"#;
    let refused = r#"{"isError":true,"content":[{"type":"text","text":"it needs a task"}]}"#;
    let call =
        format!(r#"case $line in *'"ttl"'*) {};; *) {};; esac"#, reply(task), reply(refused));
    let tools = json!([{"name": "research", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": "required"}}]);
    let found = r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"found"}]}}\n' "$result""#;
    let cases = format!(
        r#"    *tasks/result*) result=$(id "$line"); touch {}; {QUESTION};;
    *'"id":"q"'*) {found};;
    *tasks/cancel*) touch {}; {};;
    *tools/call*)"#,
        waiting.display(),
        cancelled.display(),
        reply("{}"),
    );
    let program = lists(&tools, &call).replace("    *tools/call*)", &cases);
    for revision in ERAS {
        let setup = Setup::new(vec![script("up", &program)]);
        let client = setup.client_with(revision, Person).await;
        let called = client.call_tool("up.research", json!({})).into_future();
        assert_eq!(within("the task", called).await.unwrap().text(), "found", "{revision}");
        assert!(!cancelled.exists());
        setup.gateway.close().await;
    }
    std::fs::remove_file(&waiting).unwrap();
    let setup = Setup::new(vec![script("up", &program.replace(QUESTION, ":"))]);
    let client = setup.client(ERAS[1]).await;
    let call = tokio::spawn(client.call_tool("up.research", json!({})).into_future());
    let exists = async |path: &std::path::Path| {
        while !path.exists() {
            tokio::task::yield_now().await;
        }
    };
    within("the task", exists(&waiting)).await;
    call.abort();
    within("the end of the task", exists(&cancelled)).await;
    setup.gateway.close().await;
}

/// Questions of a task are those of the call, several at once and one after another; a tool that
/// requires tasks works for every client.
#[tokio::test]
async fn questions_of_tasks_reach_the_caller() {
    for revision in ERAS {
        let fixture = Fixture::interactive();
        let setup = Setup::before(&fixture.server, ERAS[1]);
        let client = setup.client_with(revision, Person).await;
        let call = client.call_tool("up.pair", json!({})).into_future();
        let outcome = within("the task", call).await.unwrap();
        let expected = json!({"pair": {"left": "Ada", "right": 7}, "sure": true});
        assert_eq!(outcome.structured, Some(expected), "{revision}");
        let call = client.call_tool("up.needs_tasks", json!({})).into_future();
        let outcome = within("the task", call).await.unwrap();
        assert_eq!(outcome.structured.unwrap()["name"], "Ada", "{revision}");
        setup.gateway.close().await;
    }
}

/// A caller that goes away takes its task along.
#[tokio::test]
async fn the_task_of_a_dropped_call_is_cancelled() {
    for revision in ERAS {
        let fixture = Fixture::interactive();
        let setup = Setup::before(&fixture.server, ERAS[1]);
        let client = setup.client(revision).await;
        let call = tokio::spawn(client.call_tool("up.job", json!({})).into_future());
        fixture.gate.until_waiting(1).await;
        call.abort();
        fixture.gate.until_waiting(0).await;
        setup.gateway.close().await;
    }
}

/// The questions of a task outlive the gateway: somebody answers the next one, and the task goes on.
#[tokio::test]
async fn a_task_goes_on_after_a_restart_of_the_gateway() {
    let fixture = Fixture::interactive();
    let store = Arc::new(MemoryStore::new());
    let owner = Owner::new("local");
    let start = || {
        let gateway = Gateway::new(vec![upstream("up", &fixture.server, ERAS[1])]).unwrap();
        let engine = Engine::builder(store.clone()).flow(gateway.flow()).start();
        gateway.keep_questions_in(&engine);
        (Setup::of(gateway), engine)
    };
    let (before, engine) = start();
    let client = before.client_with(ERAS[1], Person).await;
    let asked = client.call_tool("up.pair", json!({})).raw().round(Map::new(), None);
    let asked = within("the questions", asked.into_future()).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let listed =
        engine.list(&owner, Phase::Waiting, PageRequest { after: None, most: 10 }).await.unwrap();
    let id = listed[0].id;
    engine.shutdown().await;
    before.gateway.close().await;
    drop((before, client));

    let (after, engine) = start();
    for _ in 0..3 {
        let open = within("a question", open(&engine, id, &owner)).await;
        let schema = open.prompt.validation.schema.clone().unwrap();
        let answer = AnswerRequest::from(Value::from(filled_in(&schema))).for_question(open.id());
        engine.respond(id, &owner, answer).await.unwrap();
    }
    let ended = within("the end", async {
        loop {
            let view = engine.view(id, &owner).await.unwrap();
            if let SessionStatus::Ended(ended) = &view.status {
                return ended.clone();
            }
            changed(&engine, id, &owner, &view).await;
        }
    });
    let ended = serde_json::to_value(&ended.await.ending).unwrap();
    assert!(ended.to_string().contains(r#""left":"Ada""#), "{ended}");
    after.gateway.close().await;
}

async fn open(engine: &Engine, id: SessionId, owner: &Owner) -> mcp_flow_engine::OpenQuestion {
    loop {
        let view = engine.view(id, owner).await.unwrap();
        if let SessionStatus::Ended(ended) = &view.status {
            panic!("the session has ended: {ended:?}");
        }
        let first = view.questions().next().cloned();
        match first {
            Some(open) => return open,
            None => changed(engine, id, owner, &view).await,
        }
    }
}

async fn changed(engine: &Engine, id: SessionId, owner: &Owner, before: &View) {
    let mut notices = engine.subscribe(id, owner).await.unwrap();
    while engine.view(id, owner).await.unwrap().status == before.status {
        notices.next().await;
    }
}
