//! Notifications and requests sent while a call runs.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Tool};
use serde_json::{Value, json};

use super::Connect;
use mcp_flow_testkit::stateless_meta;
use mcp_flow_testkit_fixture::Fixture;

/// C-45: progress is sent for a token, rises, and ends before the response; without a token there
/// is none.
pub(crate) async fn progress_is_monotonic_and_ends_with_the_call(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = connect(Fixture::new().server).await;
        peer.initialize(revision).await;
        peer.call("logging/setLevel", json!({"level": "emergency"})).await;
        let meta = json!({"progressToken": "token"});
        let id = peer.ask("tools/call", json!({"name": "report", "_meta": meta}));
        let mut values = Vec::new();
        loop {
            let message = peer.next().await;
            if message["id"] == id {
                break;
            }
            assert_eq!(message["method"], "notifications/progress");
            let params = &message["params"];
            assert_eq!(
                (&params["progressToken"], &params["total"]),
                (&json!("token"), &json!(3.0))
            );
            assert_eq!(params.get("message").is_some(), revision > Revision::V2024_11_05);
            values.push(params["progress"].as_f64().unwrap());
        }
        assert_eq!(values, [1.0, 2.0, 3.0]);
        peer.call_tool("report", json!({})).await;
        assert_eq!(peer.settle().await, Vec::<Value>::new());
    }
}

/// MCP-056, MCP-087: a notification before the response, however large, and the response both
/// arrive, even if both are queued before anything is sent.
pub(crate) async fn a_large_notification_is_not_mistaken_for_the_response(connect: &Connect) {
    let detail = "x".repeat(100_000);
    let reported = detail.clone();
    let loud = Tool::builder("loud").quick(move |context: &Context, _: Value| {
        context.progress(1.0, None, Some(&reported));
        "done"
    });
    let server = Fixture::with(|builder| builder.tools(loud)).server;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut peer = connect(server.clone()).await;
        let mut meta = json!({});
        if revision.is_stateless() {
            meta = stateless_meta();
        } else {
            peer.initialize(revision).await;
        }
        meta["progressToken"] = json!("token");
        let id = peer.ask("tools/call", json!({"name": "loud", "_meta": meta}));
        let notice = peer.next().await;
        assert_eq!(notice["params"]["message"], detail, "{revision}");
        let reply = peer.next().await;
        assert_eq!(
            (&reply["id"], &reply["result"]["content"][0]["text"]),
            (&json!(id), &json!("done"))
        );
    }
}

/// PAT-010: log messages at or above the level, which is set per connection, or per request in the
/// stateless era, where none are sent by default.
pub(crate) async fn log_messages_follow_the_level(connect: &Connect) {
    for revision in Revision::handshake() {
        let mut peer = connect(Fixture::new().server).await;
        let opened = peer.initialize(revision).await;
        assert_eq!(opened["capabilities"]["logging"], json!({}));
        for (level, expected) in
            [("debug", vec!["debug", "error"]), ("error", vec!["error"]), ("critical", vec![])]
        {
            let set = peer.call("logging/setLevel", json!({"level": level})).await;
            assert_eq!(set["result"], json!({}));
            peer.call_tool("report", json!({})).await;
            assert_eq!(levels(&peer.settle().await), expected);
        }
        let mut meta = stateless_meta();
        peer.call("tools/call", json!({"name": "report", "_meta": meta})).await;
        assert_eq!(peer.settle().await, Vec::<Value>::new());
        for (level, expected) in
            [("debug", vec!["debug", "error"]), ("warning", vec!["error"]), ("alert", vec![])]
        {
            meta["io.modelcontextprotocol/logLevel"] = json!(level);
            let id = peer.ask("tools/call", json!({"name": "report", "_meta": meta}));
            let mut before = Vec::new();
            loop {
                let message = peer.next().await;
                if message["id"] == id {
                    break;
                }
                before.push(message);
            }
            assert_eq!(levels(&before), expected, "{level}: before the reply");
        }
        // The level of a request applies to that request only.
        peer.call("tools/call", json!({"name": "report", "_meta": stateless_meta()})).await;
        assert_eq!(peer.settle().await, Vec::<Value>::new());
    }
}

/// PAT-010: an invalid level is refused, wherever it is given.
pub(crate) async fn invalid_log_levels_are_refused(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    for level in [json!("loud"), json!("DEBUG"), json!(7), json!([])] {
        let refused = peer.call("logging/setLevel", json!({"level": level})).await;
        assert_eq!(refused["error"]["code"], -32602, "{level}");
        let mut meta = stateless_meta();
        meta["io.modelcontextprotocol/logLevel"] = level.clone();
        let refused = peer.call("tools/call", json!({"name": "report", "_meta": meta})).await;
        assert_eq!(refused["error"]["code"], -32602, "{level}");
        let details = refused["error"]["data"]["details"].as_str().unwrap();
        assert!(details.contains("logLevel") && details.contains("warning"), "{details}");
    }
}

fn levels(messages: &[Value]) -> Vec<&str> {
    let logs = messages.iter().filter(|message| message["method"] == "notifications/message");
    logs.map(|message| message["params"]["level"].as_str().unwrap()).collect()
}

/// MCP-005, C-06: a call sends a request to the client and continues with its result or its error;
/// a stateless call cannot.
pub(crate) async fn a_call_can_send_requests_to_the_client(connect: &Connect) {
    let mut peer = connect(Fixture::new().server).await;
    peer.initialize(Revision::V2025_11_25).await;
    for (answer, expected) in [
        (json!({"result": {"roots": []}}), "{\"roots\":[]}"),
        (json!({"error": {"code": -1, "message": "no"}}), "the client refused: no"),
    ] {
        let id = peer.ask("tools/call", json!({"name": "ask_client"}));
        let request = peer.find(|message| message["method"] == "roots/list").await;
        let mut response = answer;
        response["jsonrpc"] = json!("2.0");
        response["id"] = request["id"].clone();
        peer.send(response);
        assert_eq!(peer.reply_to(id).await["result"]["content"][0]["text"], expected);
    }
    let params = json!({"name": "ask_client", "_meta": stateless_meta()});
    let refused = peer.call("tools/call", params).await;
    assert_eq!(refused["result"]["isError"], true);
}
