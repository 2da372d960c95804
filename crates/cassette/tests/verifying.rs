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
    if name == "create": result = {"order": "order-" + sys.argv[1], "said": "made order-" + sys.argv[1] + ", thanks"}
    if name == "find": result = {"found": params["arguments"]["order"] == "order-" + sys.argv[1]}
    if name == "login": result = {"sessionToken": "secret-" + sys.argv[1]}
    if name == "enter": result = {"entered": params["arguments"]["sessionToken"] == "secret-" + sys.argv[1]}
    if name == "noise": print("listening on port 1", flush=True)
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    if name == "pair":
        held.append(answer)
        if len(held) == 2:
            for one in reversed(held): send(one)
    else:
        send(answer)
        if name == "twice": send(answer)
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
    text += "{\"end\":{}}\n";
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

/// A difference is reported once: what is sent later stays as it was recorded.
#[tokio::test]
async fn differences_do_not_change_later_requests() {
    let report = check(
        &cassette(&[
            ("client", 1, 1, call(1, "state", &json!({}))),
            ("server", 1, 1, result(1, &json!({"weather": "sunny"}))),
            ("client", 1, 2, call(2, "echo", &json!({"weather": "sunny"}))),
            ("server", 1, 2, result(2, &json!({"echo": {"weather": "sunny"}}))),
            ("client", 1, 3, call(3, "echo", &json!("recorded"))),
            ("server", 1, 3, result(3, &json!({"echo": "other"}))),
            ("client", 1, 4, call(4, "echo", &json!("other"))),
            ("server", 1, 4, result(4, &json!({"echo": "other"}))),
        ]),
        "live",
    )
    .await;
    let differing: Vec<_> =
        report.exchanges.iter().filter(|one| !one.is_same()).map(|one| one.line).collect();
    assert_eq!(differing, [2, 6], "{report:#?}");
}

/// Ids that a second recording shows to vary are sent as the live server gave them, also those in texts.
#[tokio::test]
async fn learned_ids_are_carried_into_later_requests() {
    let recorded = |id: &str| {
        let order = format!("order-{id}");
        let said = format!("made {order}, thanks");
        cassette(&[
            ("client", 1, 1, call(1, "create", &json!({}))),
            ("server", 1, 1, result(1, &json!({"order": order, "said": said}))),
            ("client", 1, 2, call(2, "find", &json!({"order": order}))),
            ("server", 1, 2, result(2, &json!({"found": true}))),
            ("client", 1, 3, call(3, "echo", &json!({"order": order}))),
            ("server", 1, 3, result(3, &json!({"echo": {"order": order}}))),
        ])
    };
    let first = recorded("1001");
    let mut options = VerifyOptions::default();
    options.variations.learn_from(&first, &recorded("1002"));
    // The live id is one that the second recording had, and is not renamed again.
    let command = command("1002");
    let report = within("the verification", verify(&first, &command, &options)).await.unwrap();
    assert_eq!((report.compared(), report.differing()), (3, 0), "{report:#?}");
    assert_eq!(check(&first, "1002").await.differing(), 2, "nothing was learned");
}

/// Tokens are masked in recordings: the live one is sent by the name of its member.
#[tokio::test]
async fn masked_tokens_are_carried_into_later_requests() {
    let masked = || json!({"sessionToken": "[masked]"});
    let report = check(
        &cassette(&[
            ("client", 1, 1, call(1, "login", &json!({}))),
            ("server", 1, 1, result(1, &masked())),
            ("client", 1, 2, call(2, "enter", &masked())),
            ("server", 1, 2, result(2, &json!({"entered": true}))),
        ]),
        "live",
    )
    .await;
    assert_eq!((report.compared(), report.differing()), (2, 0), "{report:#?}");
}

/// Output that is no message, and second responses, fail a verification.
#[tokio::test]
async fn output_beside_the_recorded_responses_is_reported() {
    for (name, problem) in
        [("noise", "no message: listening on port 1"), ("twice", "a second response to id 1")]
    {
        let recorded = cassette(&[
            ("client", 1, 1, call(1, name, &json!({}))),
            ("server", 1, 1, result(1, &json!({"echo": {}}))),
        ]);
        let report = check(&recorded, "").await;
        assert_eq!((report.compared(), report.differing()), (1, 0), "{report:#?}");
        assert!(!report.is_good(), "{report:#?}");
        let junit = junit_report("a", &report);
        assert!(junit.contains("errors=\"1\"") && junit.contains(problem), "{junit}");
    }
}

/// A recording from which messages are missing verifies less than it seems to.
#[tokio::test]
async fn incomplete_recordings_are_not_verified_as_complete_ones() {
    let whole = format!(
        "{{\"cassette\":1}}\n{}\n{}\n",
        json!({"from": "client", "message": call(1, "echo", &json!(1))}),
        json!({"from": "server", "message": result(1, &json!({"echo": 1}))}),
    );
    for (end, is_good) in [
        ("{\"end\":{}}\n", true),
        ("", false),
        ("{\"stopped\":{\"reason\":\"full\"}}\n", false),
        ("{\"lost\":{\"messages\":2}}\n{\"end\":{}}\n", false),
    ] {
        let recorded = Cassette::parse(format!("{whole}{end}").as_bytes()).unwrap();
        let report = check(&recorded, "").await;
        assert_eq!((report.differing(), report.is_good()), (0, is_good), "{end}");
    }
}

/// Requests are shown with the params they have.
#[tokio::test]
async fn requests_without_params_are_shown_by_their_method() {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let meta =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": {"a": 1}}});
    let report = check(
        &cassette(&[
            ("client", 1, 1, list),
            ("server", 1, 1, result(1, &json!({"echo": null}))),
            ("client", 1, 2, meta),
            ("server", 1, 2, result(2, &json!({"echo": null}))),
        ]),
        "",
    )
    .await;
    let shown: Vec<_> = report.exchanges.iter().map(|one| &*one.request).collect();
    assert_eq!(shown, ["tools/list", "tools/list"]);
}
