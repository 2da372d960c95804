//! Bulk results of any size, and partial output.

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::{Bulk, Context, Limits, Resource, Tool};
use serde_json::{Value, json};

use super::Connect;
use super::handshake::call;
use super::resources::{Shown, read};
use mcp_flow_testkit_fixture::Fixture;

/// MCP-079: bulk content is delivered inline if it is small, and by a side channel of the transport
/// otherwise, in the form of each revision.
pub(crate) async fn bulk_is_delivered(connect: &Connect) {
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| builder.tools(tools()));
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        for (tool, length) in [("small", 6), ("large", LARGE)] {
            for kind in ["reader", "bytes", "blocking", "quick"] {
                let arguments = json!({"name": format!("{tool}.{kind}"), "arguments": {}});
                let reply = call(&mut peer, revision, "tools/call", arguments).await;
                let content = &reply["result"]["content"][0];
                assert_eq!(reply["result"]["isError"], false, "{revision} {tool}.{kind}");
                let text = content["text"].as_str().unwrap_or_default();
                if text.len() == length {
                    assert_eq!(text, "x".repeat(length));
                } else if content["type"] == "ref/stream" {
                    let mut stream =
                        json!({"type": "ref/stream", "streamTag": 1, "mimeType": "text/plain"});
                    if revision >= Revision::V2025_06_18 {
                        let is_sized = ["bytes", "quick"].contains(&kind);
                        stream["_meta"]["mcp-flow/download"] = match is_sized {
                            true => json!({"name": "xs", "size": LARGE}),
                            false => json!({"name": "xs"}),
                        };
                    }
                    assert_eq!(*content, stream, "{revision} {tool}.{kind}");
                } else if revision >= Revision::V2025_06_18 {
                    assert_eq!(content["type"], "resource_link", "{revision} {tool}.{kind}");
                    assert_eq!(content["name"], "xs");
                    assert_eq!(content["mimeType"], "text/plain");
                } else {
                    assert!(text.starts_with("xs: http"), "{text}");
                }
            }
        }
    }
}

/// PAT-024: a result or resource above the limit is linked or refused, with the limit.
pub(crate) async fn bulk_size_is_limited(connect: &Connect) {
    for revision in Revision::ALL {
        let fixture = Fixture::with(|builder| {
            let large = Resource::builder("x:/large")
                .read(async |_: Context| Bulk::bytes("xs", "x".repeat(LARGE)));
            let limits = Limits { result_bytes: LIMIT, ..Limits::default() };
            builder.limits(limits).tools(tools()).resources(large)
        });
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        for kind in ["reader", "bytes"] {
            let params = json!({"name": format!("large.{kind}"), "arguments": {}});
            let reply = call(&mut peer, revision, "tools/call", params).await["result"].clone();
            let text = reply["content"][0]["text"].as_str().unwrap_or_default();
            if reply["isError"] == true {
                assert!(text.contains(&format!("at most {LIMIT} bytes")), "{text}");
            } else {
                assert!(text.len() <= LIMIT, "{revision} {kind}: {} bytes came inline", text.len());
            }
        }
        let reply = read(&mut peer, revision, "x:/large").await;
        match reply["error"]["data"]["name"].as_str() {
            Some(name) => {
                assert_eq!(name, "PAYLOAD_TOO_LARGE");
                assert_eq!(reply["error"]["data"]["limit"], LIMIT);
                assert_eq!(reply["error"]["data"]["size"], LARGE);
            }
            None => {
                let contents = &reply["result"]["contents"][0];
                if contents["type"] == "ref/stream" {
                    assert_eq!(
                        (&contents["uri"], &contents["streamTag"]),
                        (&json!("x:/large"), &json!(1))
                    );
                    continue;
                }
                assert_eq!(contents["mimeType"], "text/uri-list", "{revision}");
                assert!(contents["text"].as_str().unwrap().contains("\r\nhttp"));
            }
        }
    }
}

/// MCP-087: partial output reaches the caller before the result.
pub(crate) async fn partial_output_precedes_the_result(connect: &Connect) {
    for revision in Revision::ALL {
        let (said, go_on) = (std::sync::Arc::new(tokio::sync::Notify::new()), "go on");
        let gate = said.clone();
        let tool = Tool::builder("tell").handler(move |context: Context, _: Value| {
            let gate = gate.clone();
            async move {
                context.progress(1.0, None, Some("first part"));
                context.log(LogLevel::Error, None, "first part");
                gate.notified().await;
                go_on
            }
        });
        let fixture = Fixture::with(|builder| builder.tools(tool));
        let mut peer = connect(fixture.server).await;
        Shown::of(&mut peer, revision).await;
        let mut params = json!({"name": "tell", "_meta": {}});
        if revision.is_stateless() {
            params["_meta"] = mcp_flow_testkit::stateless_meta();
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
        }
        params["_meta"]["progressToken"] = json!("t");
        let id = peer.ask("tools/call", params);
        let progress = peer.next().await;
        assert_eq!(progress["method"], "notifications/progress");
        let log = peer.next().await;
        assert_eq!(
            (&log["method"], &log["params"]["data"]),
            (&json!("notifications/message"), &json!("first part"),)
        );
        said.notify_one();
        let result = peer.reply_to(id).await;
        assert_eq!(result["result"]["content"][0]["text"], go_on);
    }
}

fn tools() -> Vec<Tool> {
    let mut tools = Vec::new();
    for (name, length) in [("small", 6), ("large", LARGE)] {
        let bytes = move || Bulk::bytes("xs", "x".repeat(length)).with_mime_type("text/plain");
        let reader = move || {
            let source = std::io::Cursor::new("x".repeat(length));
            Bulk::reader("xs", source).with_mime_type("text/plain")
        };
        let named = |kind: &str| Tool::builder(format!("{name}.{kind}"));
        tools.extend([
            named("reader")
                .handler(move |_: Context, _: Value| async move { Ok::<_, String>(reader()) })
                .unwrap(),
            named("bytes").handler(move |_: Context, _: Value| async move { bytes() }).unwrap(),
            named("blocking").blocking(move |_: &Context, _: Value| reader()).unwrap(),
            named("quick").quick(move |_: &Context, _: Value| bytes()).unwrap(),
        ]);
    }
    tools
}

const LARGE: usize = 3 * 1024 * 1024;
const LIMIT: usize = 2 * 1024 * 1024;
