//! Recording beside a relay.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_cassette::{
    Cassette, Player, Recorder, ReplayOptions, StdioRelay, Tape, Variations, VerifyOptions,
    VerifyReport, junit_report, replay_stdio, verify,
};
use serde_json::{Value, json};

/// A server in a shell script: a question, progress, a log message and a secret. `$1` is what it says.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) r='{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}';;
    *'"name":"ask"'*)
      printf '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}\n'
      printf '{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"Who?"}}\n'
      read -r answer
      r='{"content":[{"type":"text","text":"answered at '$(date +%Y-%m-%dT%H:%M:%SZ)'"}]}';;
    *'"name":"secret"'*) r='{"content":[{"type":"text","text":"ok"}],"structuredContent":{"apiKey":"hunter2"}}';;
    *'"name":"pid"'*) r='{"content":[],"structuredContent":{"pid":'$$'}}';;
    *'"method":"tools/call"'*) r='{"content":[{"type":"text","text":"'$1'"}]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
"#;

fn command(says: &str) -> Vec<OsString> {
    ["sh", "-c", SERVER, "server", says].map(OsString::from).to_vec()
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn messages() -> Vec<Value> {
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    vec![
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        call(2, "ask", json!({})),
        json!({"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"name": "Ada"}}}),
        call(3, "secret", json!({"password": "hunter2"})),
        call(4, "pid", json!({})),
        call(5, "say", json!({"n": 1})),
    ]
}

/// Records an exchange with a server that says something.
async fn record(path: &Path, says: &str) {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    let recorder = Recorder::create(path, "stdio", "sh", &[]).unwrap();
    let (client, relay) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(relay);
    let relay = StdioRelay::spawn(&command(says)).unwrap();
    let relaying = relay.run(input, output, &recorder, std::future::pending());
    let talking = async {
        let (reader, mut writer) = tokio::io::split(client);
        let mut lines = BufReader::new(reader).lines();
        for message in messages() {
            writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            // Until the response, or the question, has come.
            while message["method"].is_string() && message["id"].is_number()
                || message["id"] == "q1"
            {
                let line = lines.next_line().await.unwrap().expect("the server answers");
                let line: Value = serde_json::from_str(&line).unwrap();
                if line["id"].is_number() || line["id"] == "q1" {
                    break;
                }
            }
        }
        writer.shutdown().await.unwrap();
        while lines.next_line().await.unwrap().is_some() {}
    };
    let limit = Duration::from_secs(60);
    let both = async { tokio::join!(relaying, talking) };
    let (ended, ()) = tokio::time::timeout(limit, both).await.expect("the exchange ends");
    ended.unwrap();
    assert_eq!(recorder.finish().stopped, None);
}

async fn check(path: &Path, says: &str, variations: Variations) -> VerifyReport {
    let cassette = Cassette::read(path).unwrap();
    let mut options = VerifyOptions::default();
    options.variations = variations;
    verify(&cassette, &command(says), &options).await.unwrap()
}

#[tokio::test]
async fn a_recording_is_verified_and_differences_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, again) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
    record(&path, "hello").await;
    record(&again, "hello").await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && text.contains("[masked]"), "{text}");
    let cassette = Cassette::read(&path).unwrap();
    assert_eq!(cassette.remarks, [""; 0]);
    // The process id varies: by name, or learned from the other recording.
    let named = Variations::named(&["pid".to_owned()]);
    let mut learned = Variations::default();
    learned.learn_from(&cassette, &Cassette::read(&again).unwrap());
    for variations in [named.clone(), learned] {
        let same = check(&path, "hello", variations).await;
        assert_eq!((same.exchanges.len(), same.differing()), (5, 0), "{same:#?}");
    }
    let varying = check(&path, "hello", Variations::default()).await;
    assert_eq!(varying.differing(), 1, "{varying:#?}");
    let changed = check(&path, "goodbye <&>", named).await;
    assert_eq!(changed.differing(), 1, "{changed:#?}");
    let xml = junit_report("a.jsonl", &changed);
    assert!(xml.contains("failures=\"1\"") && xml.contains("goodbye &lt;&amp;&gt;"), "{xml}");
}

#[tokio::test]
async fn a_server_that_exits_differs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    record(&path, "hello").await;
    let cassette = Cassette::read(&path).unwrap();
    let gone = verify(&cassette, &["true".into()], &VerifyOptions::default()).await.unwrap();
    assert_eq!(gone.differing(), 5);
    assert!(gone.exchanges[0].lines()[0].contains("exited"), "{gone:#?}");
}

/// Answers of a replay to messages, without those after the last.
pub(crate) async fn replay(path: &Path, options: ReplayOptions, messages: &[Value]) -> Vec<Value> {
    let tape = Arc::new(Tape::new(&Cassette::read(path).unwrap(), &[]));
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let mut output = Vec::new();
    replay_stdio(Player::new(tape, options), input.as_bytes(), &mut output).await.unwrap();
    let lines = String::from_utf8(output).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_recording_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    record(&path, "hello").await;
    let asked = json!({"name": "ask", "arguments": {}, "_meta": {"progressToken": 77}});
    let replies = replay(
        &path,
        ReplayOptions::default(),
        &[
            json!({"id": "a", "method": "initialize", "params": {"protocolVersion": "2024-11-05"}}),
            json!({"id": "b", "method": "tools/call", "params": asked}),
            json!({"id": "replay-1", "result": {"action": "accept"}}),
            json!({"id": "c", "method": "tools/call", "params": {"arguments": {"password": "other"}, "name": "secret"}}),
            json!({"id": "d", "method": "tools/call", "params": {"name": "say", "arguments": {"n": 2}}}),
            json!({"id": "e", "method": "tools/liste"}),
            json!({"id": "f", "method": "tools/call", "params": {"name": "say", "arguments": {"n": 1.0}}}),
            json!({"id": "g", "method": "tools/call", "params": {"name": "say", "arguments": {"n": 1}}}),
            json!({"id": "h", "method": "ping"}),
        ],
    )
    .await;
    let ids: Vec<_> = replies.iter().map(|reply| reply["id"].clone()).collect();
    let expected = json!(["a", null, "replay-1", "b", "c", "d", "e", "f", "g", "h"]);
    assert_eq!(Value::from(ids), expected, "{replies:#?}");
    assert_eq!(replies[0]["result"]["serverInfo"]["name"], "sh");
    assert_eq!(replies[1]["params"]["progressToken"], 77);
    assert_eq!(replies[2]["method"], "elicitation/create");
    assert_eq!(replies[4]["result"]["structuredContent"]["apiKey"], "[masked]");
    let error = &replies[5]["error"];
    assert_eq!(
        (error["code"].clone(), error["data"]["name"].clone()),
        (json!(-32602), json!("NOT_RECORDED"))
    );
    assert!(error["message"].as_str().unwrap().contains("{\"n\":1}"), "{error}");
    assert_eq!(replies[6]["error"]["code"], -32601);
    assert_eq!(replies[8]["result"]["content"][0]["text"], "hello");
    let ordered = ReplayOptions { is_ordered: true, ..ReplayOptions::default() };
    let say =
        json!({"id": 1, "method": "tools/call", "params": {"name": "say", "arguments": {"n": 1}}});
    let wrong = replay(&path, ordered, &[say]).await;
    assert_eq!(wrong[0]["error"]["data"]["name"], "OUT_OF_ORDER", "{wrong:?}");
}
