//! Invalid JSON-RPC messages, and valid ones with invalid values (INT-104 to INT-106, PAT-011).

use serde_json::{Value, json};

use crate::attack::connection::{Received, TestConnection, Transport, connect};
use crate::attack::report::TableReport;
use crate::attack::target::Target;

/// INT-106: invalid JSON-RPC messages are rejected with the specific error code over every
/// transport, and the connection stays usable.
#[tokio::test]
async fn invalid_messages_are_rejected() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        let mut connection = TestConnection::open(&target, transport).await;
        for (text, code) in broken_texts() {
            // Invalid JSON can be valid CBOR, which has rows of its own.
            if transport != Transport::WebTransportCbor {
                let received = connection.send_frame(text.as_bytes()).await;
                refused(&mut report, transport, &text, &received, code);
            }
        }
        for bytes in BROKEN_BYTES {
            // Invalid UTF-8 closes a WebSocket, which `frames` tests.
            if !matches!(transport, Transport::WebSocket | Transport::WebTransportCbor) {
                let received = connection.send_frame(bytes).await;
                refused(&mut report, transport, &format!("{bytes:x?}"), &received, -32700);
            }
        }
        for (message, code) in wrong_messages() {
            let received = connection.send_frame(message.to_string().as_bytes()).await;
            refused(&mut report, transport, &message.to_string(), &received, code);
        }
        for method in UNKNOWN {
            let received = connection.call(method, json!({})).await;
            refused(&mut report, transport, method, &received, -32601);
        }
        if transport == Transport::WebTransportCbor {
            for (bytes, code) in CBOR {
                let received = connection.send_frame(bytes).await;
                refused(&mut report, transport, &format!("{bytes:x?}"), &received, *code);
            }
        }
        connection.finish().await;
    }
    report.finish(700);
    target.assert_recovered(64).await;
}

/// INT-104, INT-105, PAT-041: a value of the wrong type, in any member of any request, is rejected
/// before anything runs.
#[tokio::test]
async fn values_of_the_wrong_type_are_refused() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        let mut connection = TestConnection::open(&target, transport).await;
        for (method, params) in wrong_params() {
            if transport == Transport::Stateless && NOT_ALONE.contains(&method) {
                continue;
            }
            let row = format!("{method} {params}");
            let received = connection.call(method, params).await;
            report.compare(format!("{transport:?} {row}"), received.code(), Some(-32602));
        }
        connection.finish().await;
    }
    report.finish(350);
    target.assert_recovered(64).await;
}

/// INT-106: notifications and responses get no response, whatever they contain.
#[tokio::test]
async fn notifications_get_no_response() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        let mut connection = TestConnection::open(&target, transport).await;
        for message in unasked() {
            let received = connection.send_frame(message.to_string().as_bytes()).await;
            let is_silent = received.messages.is_empty() && !received.is_closed;
            // A POST always has a status, accepted or rejected.
            let is_refused = received.status == Some(400);
            report.check(
                format!("{transport:?} {message}"),
                is_silent || is_refused,
                Shown(&received),
            );
        }
        connection.finish().await;
    }
    report.finish(100);
    target.assert_recovered(64).await;
}

/// INT-101: of two requests with the same id the first is answered, and the second is rejected.
#[tokio::test]
async fn reused_request_ids_are_rejected() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        if matches!(transport, Transport::Stdio | Transport::Http | Transport::Stateless) {
            continue;
        }
        let mut peer = connect(&target, transport, None).await;
        peer.initialize(mcp_flow::Revision::V2025_11_25).await;
        for id in [json!(7), json!("x"), json!(-1), json!("")] {
            for ms in [300, 0] {
                let params = json!({"name": "sleep", "arguments": {"ms": ms}});
                peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": params}));
            }
            let first = peer.reply_to(id.clone()).await;
            let second = peer.reply_to(id.clone()).await;
            let row = format!("{transport:?} {id}");
            report.compare(&row, first["error"]["code"].as_i64(), Some(-32600));
            let text = second["result"]["content"][0]["text"].as_str();
            report.compare(&row, text, Some("slept 300 ms"));
        }
    }
    report.finish(40);
    target.assert_recovered(64).await;
}

fn refused(
    report: &mut TableReport,
    transport: Transport,
    row: &str,
    received: &Received,
    code: i64,
) {
    let shown: String = row.chars().take(80).collect();
    report.check(
        format!("{transport:?} {shown}"),
        received.code() == Some(code) && !received.is_closed,
        format_args!("{} instead of {code}", Shown(received)),
    );
    if let Some(status) = received.status {
        let expected = if code == -32601 { [200, 404] } else { [400, 400] };
        report.check(format!("{transport:?} {shown}"), expected.contains(&status), status);
    }
}

/// Summarises what was received.
struct Shown<'a>(&'a Received);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String = format!("{:?}", self.0).chars().take(300).collect();
        formatter.write_str(&text)
    }
}

/// Texts that are not JSON, or that only a JSON text can express.
fn broken_texts() -> Vec<(String, i64)> {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut rows: Vec<(String, i64)> = [
        "{",
        "}",
        "[",
        "garbage",
        "'single'",
        "NaN",
        "-Infinity",
        "0x10",
        "{} {}",
        "// comment",
        "\u{feff}{}",
        "{,}",
        "[1,]",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping""#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        r#"{jsonrpc:"2.0",id:1,method:"ping"}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":+1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":-,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1e,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\x41"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"\u12"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":tru}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\u{1}ng\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\0ng\"}",
    ]
    .map(|text| (text.to_owned(), -32700))
    .into();
    rows.push((format!("{ping}{ping}"), -32700));
    rows.push((format!("{ping}\0"), -32700));
    rows.push((format!("{}{}", "[".repeat(20_000), "]".repeat(20_000)), -32600));
    rows.push((format!("{}1{}", r#"{"a":"#.repeat(20_000), "}".repeat(19_999)), -32700));
    rows.push((
        format!(r#"{{"jsonrpc":"2.0","id":1e{},"method":"ping"}}"#, "9".repeat(2000)),
        -32600,
    ));
    for twice in ["jsonrpc", "id", "method"] {
        let value = if twice == "jsonrpc" { "\"2.0\"" } else { "\"ping\"" };
        let name = twice.replace('i', "\\u0069");
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{twice}":{value}}}"#);
        rows.push((text, -32600));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","{name}":{value}}}"#);
        if name != twice {
            rows.push((text, -32600));
        }
    }
    let method = r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#;
    rows.push((method.to_owned(), -32600));
    rows
}

/// Invalid UTF-8: stray bytes, overlong forms, half a surrogate, truncated and out of range.
const BROKEN_BYTES: &[&[u8]] = &[
    b"\xff",
    b"\xfe\xff{}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc0\xaf\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xe2\x82\"}",
    b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xf4\x90\x80\x80\"}",
];

/// JSON values that are no message.
fn wrong_messages() -> Vec<(Value, i64)> {
    let with = |name: &str, value: Value| {
        let mut message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        message[name] = value;
        message
    };
    let mut rows: Vec<Value> = vec![json!(null), json!(true), json!(7), json!("x"), json!({})];
    for value in
        [json!(null), json!(true), json!(2), json!("2"), json!("1.0"), json!(""), json!([])]
    {
        rows.push(with("jsonrpc", value));
    }
    for value in
        [json!(null), json!(true), json!([]), json!([1]), json!({}), json!("x".repeat(2000))]
    {
        rows.push(with("id", value));
    }
    for value in [json!(null), json!(true), json!(7), json!([]), json!({}), json!(["ping"])] {
        rows.push(with("method", value));
    }
    // One message cannot be a request and a response.
    for name in ["result", "error"] {
        for value in [json!(null), json!({}), json!({"code": 1, "message": "x"})] {
            rows.push(with(name, value));
        }
    }
    rows.push(json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}));
    rows.push(json!({"jsonrpc": "2.0", "id": 1}));
    rows.push(json!({"id": 1, "method": "ping"}));
    // A batch is no message in these revisions.
    let ping = with("id", json!(1));
    rows.extend([json!([]), json!([[]]), json!([1]), json!([ping]), json!([[ping]])]);
    rows.push(Value::Array(vec![ping; 2000]));
    rows.into_iter().map(|row| (row, -32600)).collect()
}

/// Invalid method names that resemble valid ones.
const UNKNOWN: &[&str] =
    &["", "x", "TOOLS/LIST", "tools/list ", "tools/list\0", "__proto__", "../ping", "rpc.discover"];

/// Requests with one missing value or one of the wrong type.
fn wrong_params() -> Vec<(&'static str, Value)> {
    let scalars = || [json!(true), json!(7), json!("x"), json!([1])];
    let no_text = || [json!(null), json!(true), json!(7), json!([]), json!({})];
    let mut rows = Vec::new();
    for value in scalars() {
        rows.push(("tools/call", json!({"name": "echo", "arguments": value})));
        rows.push(("prompts/get", json!({"name": "greeting", "arguments": value})));
        rows.push(("completion/complete", json!({"ref": value, "argument": {}})));
    }
    for value in no_text() {
        rows.push(("tools/call", json!({"name": value, "arguments": {}})));
        rows.push(("prompts/get", json!({"name": value})));
        rows.push(("resources/read", json!({"uri": value})));
        rows.push(("resources/subscribe", json!({"uri": value})));
        rows.push(("resources/unsubscribe", json!({"uri": value})));
        rows.push(("logging/setLevel", json!({"level": value})));
        rows.push(("interaction.start", json!({"toolName": value})));
        rows.push(("interaction.respond", json!({"sessionId": value, "response": {"value": 1}})));
    }
    for value in [json!(7), json!([]), json!({}), json!("made-up"), json!("-1"), json!("")] {
        rows.push(("tools/list", json!({"cursor": value})));
        rows.push(("resources/list", json!({"cursor": value})));
    }
    rows.extend([
        ("tools/call", json!({})),
        ("tools/call", json!({"name": "no.such.tool"})),
        ("tools/call", json!({"name": "echo\0"})),
        ("prompts/get", json!({})),
        ("prompts/get", json!({"name": "no such prompt"})),
        ("logging/setLevel", json!({"level": "loud"})),
        ("interaction.start", json!({"toolName": "no such flow"})),
    ]);
    rows
}

/// Methods that do not exist in the stateless revision.
const NOT_ALONE: [&str; 4] =
    ["resources/subscribe", "resources/unsubscribe", "logging/setLevel", "completion/complete"];

/// Unsolicited responses, and unknown notifications.
fn unasked() -> Vec<Value> {
    let mut rows = vec![
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": "never", "result": null}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": 7}),
        json!({"jsonrpc": "2.0", "id": null, "error": {}}),
        json!({"jsonrpc": "2.0", "id": [], "result": {}}),
        json!({"jsonrpc": "2.0", "method": "no/such/notification"}),
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}}),
        json!({"jsonrpc": "2.0", "method": "ping", "params": 7}),
    ];
    let values = [json!(null), json!(7), json!("x"), json!([]), json!({}), json!(1e300)];
    for value in values {
        for method in ["notifications/cancelled", "$/cancel"] {
            let params = json!({"requestId": value});
            rows.push(json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
        rows.push(json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": value, "progress": value}}));
    }
    rows
}

/// Invalid CBOR, and CBOR that is no message.
const CBOR: &[(&[u8], i64)] = &[
    (b"\xff", -32700),
    (b"\xa1", -32700),
    (b"\xbf\x61a\x01", -32700),
    (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff", -32700),
    (b"\x7b\xff\xff\xff\xff\xff\xff\xff\xff", -32700),
    (b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", -32700),
    (b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff", -32700),
    (b"\x1c", -32700),
    (b"\x1f", -32700),
    (b"\x61\xff", -32700),
    (b"\x62\xc0\xaf", -32700),
    (b"\xa0\xa0", -32700),
    (b"\x7f\x41\x00\xff", -32700),
    (b"\xf8\x01", -32600),
    (&[0x81; 4000], -32700),
    (&[0xa1; 4000], -32700),
    (&[0xc1; 4000], -32700),
    (b"\xa0", -32600),
    (b"\xf6", -32600),
    (b"\x01", -32600),
    (b"\x80", -32600),
    (b"\x40", -32600),
];
