//! Trace context propagation to requests to the client.

use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Server, Tool};
use mcp_flow_testkit_fixture::memory::{connect, connect_cbor};
use serde_json::{Value, json};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// MCP-077: `traceparent`, `tracestate` and `baggage` are propagated to nested requests; malformed
/// values are dropped and do not fail the call.
#[tokio::test]
async fn trace_context_is_propagated_to_client_requests() {
    let ask = |context: Context, _: Value| async move {
        let params = json!({"_meta": {"own": 7}});
        let answer: Value = context.client().request("roots/list", &params).await.unwrap();
        answer.to_string()
    };
    let ask = Tool::builder("ask").handler(ask).unwrap();
    let server = Server::builder("traced", "1.0.0").tools([ask]).build().unwrap();
    let none = Value::Null;
    let (state, tenant) = (json!("a=1,b=2"), json!("tenant=a%20b;p=1,stage=test"));
    for (parent, sent, baggage, carried) in [
        (json!(PARENT), state.clone(), &tenant, (json!(PARENT), state.clone(), &tenant)),
        (json!(PARENT), json!("\u{1b}"), &none, (json!(PARENT), none.clone(), &none)),
        (json!(PARENT), json!(7), &json!("\u{1b}"), (json!(PARENT), none.clone(), &none)),
        (
            json!(PARENT.to_uppercase()),
            state.clone(),
            &tenant,
            (none.clone(), none.clone(), &tenant),
        ),
        (json!("nonsense"), none.clone(), &json!(7), (none.clone(), none.clone(), &none)),
        (none.clone(), none.clone(), &tenant, (none.clone(), none.clone(), &tenant)),
        (json!({}), state, &json!(["x"]), (none.clone(), none.clone(), &none)),
    ] {
        for mut peer in [connect(&server), connect_cbor(&server)] {
            peer.initialize_with(Revision::V2025_11_25, json!({"roots": {}})).await;
            let meta = json!({"traceparent": parent, "tracestate": sent, "baggage": baggage});
            let params = json!({"name": "ask", "arguments": {}, "_meta": meta});
            let id = peer.ask("tools/call", params);
            let asked = peer.find(|message| message["method"] == "roots/list").await;
            let meta = &asked["params"]["_meta"];
            assert_eq!((&meta["traceparent"], &meta["tracestate"]), (&carried.0, &carried.1));
            assert_eq!(&meta["baggage"], carried.2);
            assert_eq!(meta["own"], 7);
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}});
            peer.send(answer);
            assert!(peer.reply_to(id).await["result"].is_object());
        }
    }
}
