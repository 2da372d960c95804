//! Calls that continue as tasks.

use futures_util::StreamExt;
use mcp_flow_client::model::TaskState;
use mcp_flow_client::{ChangeFilter, Client, DetachedCall, ErrorKind, Revision, ServerChange};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;

use super::host::FormFiller;
use super::{Reach, client, client_by};

/// A call that continues as a task gives its result like any other, and dropping it cancels the task.
pub(crate) async fn a_call_follows_its_task(reach: &Reach) {
    let fixture = Fixture::interactive();
    let client = client(reach, &fixture.server, Revision::V2026_07_28).await;
    let call = async { client.call_tool("job", json!({})).await };
    let release = async {
        fixture.gate.until_waiting(1).await;
        fixture.gate.release_one();
    };
    let (outcome, ()) = within("the task", futures_util::future::join(call, release)).await;
    assert_eq!(outcome.unwrap().text(), "done");
    let failed = within("the broken task", client.call_tool("broken_job", json!({})).into_future());
    let failed = failed.await.unwrap_err();
    assert_eq!(failed.server().map(|error| error.code), Some(-32603), "{failed}");
    let mut dropped = client.call_tool("job", json!({})).start();
    // The first report is that of the task.
    assert!(within("the task to be reported", dropped.next()).await.is_some());
    fixture.gate.until_waiting(1).await;
    drop(dropped);
    within("the cancelled task to stop", fixture.gate.until_waiting(0)).await;
}

/// The host answers the questions of a task, several at once and again after an invalid answer.
pub(crate) async fn the_host_answers_questions_of_tasks(reach: &Reach) {
    let fixture = Fixture::interactive();
    let host = FormFiller::new([
        ("left", vec![json!("A"), json!("Ada")]),
        ("right", vec![json!(7)]),
        ("sure", vec![json!(true)]),
    ]);
    let builder = Client::builder().host(host);
    let client = client_by(builder, reach, &fixture.server, Revision::V2026_07_28).await;
    let call = client.call_tool("pair", json!({})).into_future();
    let outcome = within("the task", call).await.unwrap();
    let expected = json!({"pair": {"left": "Ada", "right": 7}, "sure": true});
    assert_eq!(outcome.structured, Some(expected));
}

/// A call can be left to its task, which is read, followed, announced and cancelled by its id.
pub(crate) async fn a_detached_task_is_followed_by_its_id(reach: &Reach) {
    let fixture = Fixture::interactive();
    let client = client(reach, &fixture.server, Revision::V2026_07_28).await;
    let detached = client.call_tool("simple", json!({"name": "Ada"})).detach().await.unwrap();
    assert!(matches!(detached, DetachedCall::Completed(_)), "{detached:?}");
    let id = detach(&client).await;
    fixture.gate.until_waiting(1).await;
    assert_eq!(client.get_task(&id).await.unwrap().state, TaskState::Working);
    let mut changes = client.listen(ChangeFilter::new().task(&id)).await.unwrap();
    fixture.gate.release_one();
    let change = within("the change", changes.next()).await.unwrap().unwrap();
    let ServerChange::Task(announced) = change else { panic!("{change:?}") };
    let ended = within("the end", client.follow_task(&id).into_future()).await.unwrap();
    assert_eq!(*announced, ended);
    let TaskState::Completed { result } = &ended.state else { panic!("{ended:?}") };
    assert_eq!(result["content"][0]["text"], "done");
    let id = detach(&client).await;
    fixture.gate.until_waiting(1).await;
    client.cancel_task(&id).await.unwrap();
    let ended = within("the end", client.follow_task(&id).into_future()).await.unwrap();
    assert_eq!(ended.state, TaskState::Cancelled);
    let unknown = client.get_task("session_unknown").await.unwrap_err();
    assert_eq!(unknown.server().map(|error| error.code), Some(-32602), "{unknown}");
}

/// A task that somebody else cancels ends its call with an error, and a client that does not accept
/// tasks gets none.
pub(crate) async fn cancelled_and_unwanted_tasks_are_no_results(reach: &Reach) {
    let fixture = Fixture::interactive();
    let plain = Client::builder().with(|options| options.tasks = false);
    let plain = client_by(plain, reach, &fixture.server, Revision::V2026_07_28).await;
    let refused = plain.call_tool("needs_tasks", json!({"name": "Ada"})).await.unwrap_err();
    assert_eq!(refused.server().map(|error| error.code), Some(-32021), "{refused}");
    let client = client(reach, &fixture.server, Revision::V2026_07_28).await;
    let call = async { client.call_tool("job", json!({})).await };
    let cancel = async {
        fixture.gate.until_waiting(1).await;
        let listed = client.request("interaction.list", json!({})).await.unwrap();
        let id = listed["sessions"][0]["sessionId"].as_str().expect("a task is a session");
        client.cancel_task(id).await.unwrap();
    };
    let (outcome, ()) = within("the task", futures_util::future::join(call, cancel)).await;
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Tool);
}

async fn detach(client: &Client) -> String {
    match client.call_tool("job", json!({})).detach().await.unwrap() {
        DetachedCall::Task(task) => task.task_id,
        DetachedCall::Completed(outcome) => panic!("there is no task: {outcome:?}"),
    }
}
