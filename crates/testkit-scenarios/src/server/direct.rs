//! Tools called as methods.

use std::sync::{Arc, Mutex};

use mcp_flow_proto::Revision;
use mcp_flow_server::observe::{Detail, Observed, Observer};
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{Context, Permissions, Tool, ToolOutput};
use serde_json::{Value, json};

use super::Connect;
use super::handshake::call;
use super::prompts::open;
use mcp_flow_testkit_fixture::Fixture;

/// C-18, C-19, C-54, WFL-059: every tool can be called as a method: its arguments are the params,
/// its output is the result, and a failure is an error. No protocol method is shadowed.
pub(crate) async fn tools_can_be_called_as_methods(connect: &Connect) {
    for revision in Revision::ALL {
        let fixture = Fixture::with(|server| {
            let data = |_: &Context, given: Value| ToolOutput::structured(json!({"given": given}));
            let server = server.tools(Tool::builder("data").quick(data));
            let shadow = Tool::builder("ping").quick(|_: &Context, _: Value| "shadow");
            server.tools(shadow).all_direct_methods()
        });
        let mut peer = open(connect, &fixture, revision).await;
        for name in ["math.add", "math_add"] {
            let sum = call(&mut peer, revision, name, json!({"a": 2, "b": 3})).await;
            let same = json!({"name": name, "arguments": {"a": 2, "b": 3}});
            let same = call(&mut peer, revision, "tools/call", same).await;
            assert_eq!(sum["result"], same["result"], "{revision}");
            assert_eq!(sum["result"]["content"][0]["text"], "5", "{revision}");
        }
        let data = call(&mut peer, revision, "data", json!({"x": 1})).await;
        assert_eq!(data["result"], json!({"given": {"x": 1}}), "{revision}");
        let failed = call(&mut peer, revision, "fail", json!({})).await["error"].clone();
        assert_eq!(failed["data"]["name"], "TOOL_FAILED", "{failed}");
        assert_eq!(failed["data"]["details"], "it did not work", "{failed}");
        let wrong = call(&mut peer, revision, "math.add", json!({"a": "two"})).await;
        assert_eq!(wrong["error"]["code"], -32602, "{revision}: {wrong}");
        assert!(wrong["error"]["data"]["violations"].is_array(), "{revision}: {wrong}");
        let ping = call(&mut peer, revision, "ping", json!({})).await;
        assert!(!ping.to_string().contains("shadow"), "{revision}: {ping}");
    }
    let mut peer = open(connect, &Fixture::new(), Revision::V2025_11_25).await;
    let refused = peer.call("math.add", json!({"a": 2, "b": 3})).await;
    assert_eq!(refused["error"]["code"], -32601, "nothing is a method unless it is said");
}

/// C-18, MCP-091: a direct call has the same permissions, and is observed as the same call.
pub(crate) async fn direct_calls_behave_like_tool_calls(connect: &Connect) {
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let noted = RecordingObserver::default();
        let rule = AccessRule {
            principals: Names::all(),
            tools: Names::new(["math.*", "fail"]),
            ..AccessRule::default()
        };
        let fixture = Fixture::with(|server| {
            let server = server.all_direct_methods().observer(noted.clone());
            server.permissions(Permissions::new(vec![rule]))
        });
        let mut peer = open(connect, &fixture, revision).await;
        for (tool, arguments) in [
            ("math.add", json!({"a": 2, "b": 3})),
            ("math_add", json!({"a": 2, "b": 3})),
            ("fail", json!({})),
        ] {
            noted.take();
            call(&mut peer, revision, tool, arguments.clone()).await;
            let directly = noted.take();
            let params = json!({"name": tool, "arguments": arguments});
            call(&mut peer, revision, "tools/call", params).await;
            assert_eq!(directly, noted.take(), "{tool} {revision}");
            assert_eq!((&*directly[0].0, &*directly[0].1), ("tools/call", tool));
        }
        let hidden = call(&mut peer, revision, "who", json!({})).await["error"].to_string();
        let absent = call(&mut peer, revision, "absent", json!({})).await["error"].to_string();
        assert!(hidden.contains("-32601"), "{hidden}");
        assert_eq!(hidden.replace("who", "absent"), absent, "{revision}");
    }
}

/// Observer that records method, target and outcome of every exchange.
#[derive(Clone, Default)]
struct RecordingObserver(Arc<Mutex<Vec<(String, String, String)>>>);

impl RecordingObserver {
    fn take(&self) -> Vec<(String, String, String)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Observer for RecordingObserver {
    fn detail(&self) -> Detail {
        Detail::Outline
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let (known, target) = (exchange.known.unwrap_or("other"), exchange.target);
        let outcome = exchange.outcome_name().to_owned();
        let entry = (known.to_owned(), target.unwrap_or_default().to_owned(), outcome);
        self.0.lock().unwrap().push(entry);
    }
}
