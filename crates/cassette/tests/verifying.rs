//! Cassettes that are verified against servers.

use std::ffi::OsString;

use mcp_flow_cassette::{
    Cassette, Variations, VerifyOptions, VerifyReport, junit_error, junit_report, verify,
};
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};

/// Answers each call with its arguments, the second of two calls first; `$1` is the text of `state`.
const SERVER: &str = r#"
import json, sys
held, asked = [], 0
def send(message): print(json.dumps(message, separators=(",", ":")), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    asked += 1
    params = message.get("params", {})
    name = params.get("name")
    result = {"echo": params.get("arguments")}
    if name == "large": result = {"text": "x" * 1100000 + sys.argv[1]}
    if name == "state": result = {"requestState": "state-" + sys.argv[1]}
    if name == "count": result = {"count": asked}
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    if name == "pair":
        held.append(answer)
        if len(held) == 2:
            for one in reversed(held): send(one)
    else: send(answer)
"#;

fn command(text: &str) -> Vec<OsString> {
    ["python3", "-c", SERVER, text].map(OsString::from).to_vec()
}

fn call(id: u64, name: &str, arguments: &Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// A cassette of messages with sender, connection and HTTP request.
fn cassette(messages: &[(&str, u64, u64, Value)]) -> Cassette {
    let mut text = "{\"cassette\":1}\n".to_owned();
    for (at, (from, connection, exchange, message)) in messages.iter().enumerate() {
        let mut line =
            json!({"at": at, "from": from, "connection": connection, "exchange": exchange});
        let is_large = message.get("sha256").is_some();
        line[if is_large { "large" } else { "message" }] = message.clone();
        text += &format!("{line}\n");
    }
    Cassette::parse(text.as_bytes()).unwrap()
}

async fn check(cassette: &Cassette, text: &str) -> VerifyReport {
    let (command, options) = (command(text), VerifyOptions::default());
    within("the verification", verify(cassette, &command, &options)).await.unwrap()
}

fn result(id: u64, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[tokio::test]
async fn requests_without_a_recorded_response_are_not_compared() {
    let none = check(&cassette(&[]), "").await;
    assert_eq!((none.compared(), none.differing()), (0, 0));
    let (one, other) = (call(1, "a", &json!(1)), call(2, "b", &json!(2)));
    let answer = result(1, &json!({"echo": 1}));
    let report = check(
        &cassette(&[("client", 1, 1, one), ("server", 1, 1, answer), ("client", 1, 2, other)]),
        "",
    )
    .await;
    assert_eq!((report.exchanges.len(), report.compared(), report.differing()), (2, 1, 0));
    let junit = junit_report("a", &report);
    assert!(junit.contains("skipped=\"1\"") && junit.contains("<skipped message="), "{junit}");
    assert!(junit_error("a", "no <server>").contains("<error message=\"no &lt;server&gt;\""));
}

/// Clients without a session use one id at the same time, and connections that last for one request.
#[tokio::test]
async fn concurrent_requests_of_stateless_clients_are_told_apart() {
    for connections in [[1, 1], [7, 8]] {
        let [first, second] = connections;
        let report = check(
            &cassette(&[
                ("client", first, 1, call(1, "pair", &json!("a"))),
                ("client", second, 2, call(1, "pair", &json!("b"))),
                ("server", second, 2, result(1, &json!({"echo": "b"}))),
                ("server", first, 1, result(1, &json!({"echo": "a"}))),
            ]),
            "",
        )
        .await;
        assert_eq!((report.compared(), report.differing()), (2, 0), "{report:#?}");
    }
}

/// One process answers all requests of stateless clients, and a state goes from one request to the next.
#[tokio::test]
async fn stateless_requests_share_a_server_and_what_it_gave_them() {
    let round = call(1, "echo", &json!({"requestState": "state-recorded"}));
    let report = check(
        &cassette(&[
            ("client", 1, 1, call(1, "state", &json!({}))),
            ("server", 1, 1, result(1, &json!({"requestState": "state-recorded"}))),
            ("client", 2, 2, round),
            ("server", 2, 2, result(1, &json!({"echo": {"requestState": "state-recorded"}}))),
            ("client", 3, 3, call(1, "count", &json!({}))),
            ("server", 3, 3, result(1, &json!({"count": 3}))),
        ]),
        "live",
    )
    .await;
    assert_eq!((report.compared(), report.differing()), (3, 0), "{report:#?}");
    // The server was sent its own state: a wrong one would be a difference.
    let wrong = call(1, "echo", &json!({"state": "state-recorded"}));
    let report = check(
        &cassette(&[
            ("client", 1, 1, call(1, "state", &json!({}))),
            ("server", 1, 1, result(1, &json!({"requestState": "state-recorded"}))),
            ("client", 2, 2, wrong),
            ("server", 2, 2, result(1, &json!({"echo": {"state": "state-live"}}))),
        ]),
        "live",
    )
    .await;
    assert_eq!(report.differing(), 0, "{report:#?}");
}

/// Messages that are too large to be kept are compared by their digests.
#[tokio::test]
async fn large_responses_are_compared() {
    let text = format!("{{\"text\":\"{}same\"}}", "x".repeat(1_100_000));
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{text}}}");
    let digest = ring::digest::digest(&ring::digest::SHA256, line.as_bytes());
    let sha256: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let large = json!({"bytes": line.len(), "sha256": sha256, "id": 1});
    let cassette =
        cassette(&[("client", 1, 1, call(1, "large", &json!({}))), ("server", 1, 1, large)]);
    let same = check(&cassette, "same").await;
    assert_eq!((same.compared(), same.differing()), (1, 0), "{same:#?}");
    let other = check(&cassette, "diff").await;
    assert_eq!(other.differing(), 1, "{other:#?}");
    assert!(other.exchanges[0].lines()[0].contains("sha256"), "{other:#?}");
    // Varies between two recordings.
    let mut second = serde_json::to_value(&cassette.header).unwrap().to_string() + "\n";
    for (from, message) in [
        ("client", json!({"message": call(1, "large", &json!({}))})),
        ("server", json!({"large": {"bytes": 3, "sha256": "00", "id": 1}})),
    ] {
        let mut line = message;
        line["from"] = from.into();
        second += &format!("{line}\n");
    }
    let mut options = VerifyOptions::default();
    options.variations = Variations::default();
    options.variations.learn_from(&cassette, &Cassette::parse(second.as_bytes()).unwrap());
    let learned = verify(&cassette, &command("diff"), &options).await.unwrap();
    assert_eq!(learned.differing(), 0, "{learned:#?}");
}

/// A server that is sent a masked value may answer otherwise, and the report says why.
#[tokio::test]
async fn differences_due_to_masked_values_are_explained() {
    let report = check(
        &cassette(&[
            ("client", 1, 1, call(1, "a", &json!({"password": "[masked]"}))),
            ("server", 1, 1, result(1, &json!({"echo": "as recorded"}))),
        ]),
        "",
    )
    .await;
    assert_eq!(report.differing(), 1);
    assert!(report.exchanges[0].lines()[0].contains("are masked"), "{report:#?}");
}

/// A process answers one handshake; clients without a session share a recorded connection.
#[tokio::test]
async fn each_handshake_of_a_connection_has_a_server() {
    let initialize = || json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}});
    let introduced = || result(0, &json!({"echo": null}));
    let report = check(
        &cassette(&[
            ("client", 1, 1, initialize()),
            ("server", 1, 1, introduced()),
            ("client", 1, 2, call(1, "count", &json!({}))),
            ("client", 1, 3, initialize()),
            ("server", 1, 2, result(1, &json!({"count": 2}))),
            ("server", 1, 3, introduced()),
            ("client", 1, 4, call(1, "count", &json!({}))),
            ("server", 1, 4, result(1, &json!({"count": 2}))),
        ]),
        "",
    )
    .await;
    assert_eq!((report.compared(), report.differing()), (4, 0), "{report:#?}");
}
