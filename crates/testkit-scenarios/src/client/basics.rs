//! Listing, calling, reading, and errors.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use mcp_flow_client::{Client, ClientEvent, CompletionReference, Error, ErrorKind, Revision};
use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::{Limits, Resource, Tool};
use serde_json::{Map, Value, json};

use super::{Reach, client};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;

/// MCP-031, MCP-032, MCP-036, MCP-040: connect, list, call, in every revision.
pub(crate) async fn clients_speak_every_revision(reach: &Reach) {
    for revision in Revision::ALL {
        let client = client(reach, &Fixture::new().server, revision).await;
        let server = client.server().await.unwrap();
        assert_eq!((server.revision, server.implementation.name.as_str()), (revision, "fixture"));
        assert_eq!(server.instructions.as_deref(), Some("Call add to add."));
        let tool = client.tool("math.add").await.unwrap().unwrap();
        assert_eq!(tool.input_schema["required"], json!(["a", "b"]));
        assert!(client.tool("missing").await.unwrap().is_none());
        let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(sum.text(), "5", "{revision}");
        client.ping().await.unwrap();
        client.close().await;
        let closed = client.ping().await.unwrap_err();
        assert!(matches!(closed, Error::Closed), "{closed}");
    }
}

/// By default the newest common revision is used.
pub(crate) async fn the_newest_common_revision_is_negotiated(reach: &Reach) {
    let connector = reach(Fixture::new().server).await;
    let client = Client::builder().connect_by(connector).await.unwrap();
    assert_eq!(client.server().await.unwrap().revision, Revision::V2026_07_28);
}

/// MCP-038: responses arrive in any order, and each caller gets its own.
pub(crate) async fn responses_are_matched_to_requests(reach: &Reach) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let fixture = Fixture::new();
        let client = client(reach, &fixture.server, revision).await;
        let slow = tokio::spawn(client.call_tool("wait", json!({})).into_future());
        fixture.gate.until_waiting(1).await;
        let sums = (0..100).map(|number| {
            let call = client.call_tool("math.add", json!({"a": number, "b": 1}));
            async move { (number, call.await.unwrap().text()) }
        });
        for (number, sum) in futures_util::future::join_all(sums).await {
            assert_eq!(sum, (number + 1).to_string());
        }
        fixture.gate.release_all();
        assert_eq!(slow.await.unwrap().unwrap().text(), "done");
    }
}

/// C-45, MCP-039: rising progress is a stream, and log messages are another.
pub(crate) async fn progress_and_logs_are_streams(reach: &Reach) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let client = client(reach, &Fixture::new().server, revision).await;
        let mut events = client.events();
        client.set_log_level(LogLevel::Error).await.unwrap();
        let mut call = client.call_tool("report", json!({})).start();
        let mut steps = Vec::new();
        while let Some(step) = call.next().await {
            steps.push((step.progress, step.total));
        }
        assert_eq!(steps, [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))], "{revision}");
        assert_eq!(call.await.unwrap().text(), "reported");
        let logged = async {
            loop {
                if let ClientEvent::Log { level, data, .. } = events.next().await.unwrap() {
                    return (level, data);
                }
            }
        };
        let logged = within("a line of the log", logged).await;
        assert_eq!(logged, (LogLevel::Error, json!({"broken": true})));
    }
}

/// A dropped call is cancelled at the server, and the connection stays usable.
pub(crate) async fn a_dropped_call_is_cancelled(reach: &Reach) {
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let fixture = Fixture::new();
        let client = client(reach, &fixture.server, revision).await;
        let call = tokio::spawn(client.call_tool("wait", json!({})).into_future());
        fixture.gate.until_waiting(1).await;
        call.abort();
        fixture.gate.until_waiting(0).await;
        client.ping().await.unwrap();
    }
}

/// MCP-035: a call without a response in time is an error, and is cancelled at the server.
pub(crate) async fn a_call_times_out(reach: &Reach) {
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let fixture = Fixture::new();
        let client = client(reach, &fixture.server, revision).await;
        let call = client.call_tool("wait", json!({})).timeout(Duration::from_millis(200));
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        fixture.gate.until_waiting(0).await;
    }
}

/// MCP-039, C-24: errors of the server reach the caller with code, name and data; a failed tool is
/// a result.
pub(crate) async fn server_errors_reach_the_caller(reach: &Reach) {
    for revision in Revision::ALL {
        let client = client(reach, &Fixture::new().server, revision).await;
        let error = client.call_tool("missing", json!({})).await.unwrap_err();
        let error = error.server().unwrap();
        assert_eq!((error.code, error.name()), (-32602, Some("UNKNOWN_TOOL")), "{revision}");
        let failed = client.call_tool("fail", json!({})).await.unwrap();
        assert_eq!(failed.error_text(), "it did not work");
        let failed = failed.into_result().unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Tool);
        let panicked = client.call_tool("panic", json!({})).await.unwrap();
        assert!(panicked.error_text().contains("internal error"), "{}", panicked.error_text());
        let wrong = client.call_tool("math.add", json!([1])).await.unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::Usage);
    }
}

/// PAT-015: a list is one stream over all its pages.
pub(crate) async fn paginated_lists_are_one_stream(reach: &Reach) {
    for revision in [Revision::V2024_11_05, Revision::V2026_07_28] {
        let fixture = Fixture::with(|builder| {
            let resources =
                (0..25).map(|number| Resource::builder(format!("x:/{number}")).text("t").unwrap());
            let limits = Limits { page: 10, ..Limits::default() };
            builder.limits(limits).resources(resources.collect::<Vec<_>>())
        });
        let client = client(reach, &fixture.server, revision).await;
        let resources = client.resources().all().await.unwrap();
        assert_eq!(resources.len(), 25);
        let first: Vec<_> = client.resources().take(3).try_collect().await.unwrap();
        assert_eq!(first[2].uri, resources[2].uri);
        assert_eq!(client.read_text("x:/7").await.unwrap(), "t");
        assert!(client.resource_templates().all().await.unwrap().is_empty());
        let missing = client.read_resource("x:/99").await.unwrap_err();
        assert_eq!(missing.server().unwrap().name(), Some("RESOURCE_NOT_FOUND"));
    }
}

/// PAT-039, PAT-046: prompts are listed, read with their content, and their arguments completed.
pub(crate) async fn prompts_are_read_and_completed(reach: &Reach) {
    for revision in [Revision::V2025_03_26, Revision::V2026_07_28] {
        let client = client(reach, &Fixture::with_prompts().server, revision).await;
        let prompts = client.prompts().all().await.unwrap();
        let analyze = prompts.iter().find(|prompt| prompt.name == "analyze_data").unwrap();
        assert!(analyze.arguments.iter().any(|one| one.name == "data" && one.required));
        let got = client.get_prompt("analyze_data", [("data", "1, 2")]).await.unwrap();
        assert!(got.messages[0].content.as_text().unwrap().contains("1, 2"));
        let everything = client.get_prompt("everything", None::<(String, String)>).await.unwrap();
        assert_eq!(everything.messages.len(), 5);
        let pick = CompletionReference::Prompt("pick".to_owned());
        let found = client.complete(&pick, "language", "r", Map::new()).await.unwrap();
        assert_eq!(found.values, ["rust", "ruby"]);
        let others = json!({"language": "rust"}).as_object().cloned().unwrap();
        let found = client.complete(&pick, "framework", "", others).await.unwrap();
        assert_eq!(found.values, ["axum"]);
    }
}

/// Any method can be requested, with its own `_meta`.
pub(crate) async fn any_method_can_be_requested(reach: &Reach) {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let tool = Tool::builder("mirror").quick(|_: &mcp_flow_server::Context, it: Value| {
            mcp_flow_server::ToolOutput::structured(it)
        });
        let fixture = Fixture::with(|builder| builder.tools(tool.unwrap()));
        let client = client(reach, &fixture.server, revision).await;
        let params = json!({"name": "mirror", "arguments": {"a": [1, {"b": "é\n\"\\"}]},
            "_meta": {"io.example/x": 1}});
        let result = client.request("tools/call", params.clone()).await.unwrap();
        assert_eq!(result["structuredContent"], params["arguments"]);
        let unknown = client.request("no/such/method", Value::Null).await.unwrap_err();
        assert_eq!(unknown.server().unwrap().code, -32601);
    }
}
