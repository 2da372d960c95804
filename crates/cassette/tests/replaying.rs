//! Recording and replaying over HTTP.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_cassette::{Cassette, HttpRelay, Recorder, ReplayOptions, ReplayServer, Tape};
use mcp_flow_http_client::{Fetch, HttpOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

async fn post(url: &str, message: &Value) -> (u16, String) {
    let fetch = Fetch::new(&HttpOptions::new(), 1 << 23, Duration::from_secs(20)).unwrap();
    let request = hyper::Request::post(url)
        .header("content-type", "application/json")
        .header("authorization", "Bearer hunter2hunter2hunter2")
        .body(message.to_string().into())
        .unwrap();
    let response = fetch.send(request).await.unwrap();
    let body = String::from_utf8(response.body().to_vec()).unwrap();
    (response.status().as_u16(), body)
}

/// A cassette that answers requests is served, recorded by a relay, and served again.
#[tokio::test]
async fn a_relay_records_what_passes() {
    let header = "{\"cassette\":1}\n";
    let asked = json!({"id": 1, "method": "tools/call", "params": {"name": "a"}});
    let answer = json!({"id": 1, "result": {"token": "hunter2", "text": "hi"}});
    let lines = format!(
        "{header}{}\n{}\n",
        json!({"from": "client", "message": asked}),
        json!({"from": "server", "message": answer})
    );
    let tape = Arc::new(Tape::new(&Cassette::parse(lines.as_bytes()).unwrap(), &[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = ReplayServer::new(tape, ReplayOptions::default());
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let recorder = Recorder::create(&path, "http", &target, &[]).unwrap();
    let relay = HttpRelay::new(&target, &HttpOptions::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = relay.url(listener.local_addr().unwrap());
    let recording = recorder.clone();
    tokio::spawn(async move { relay.serve(listener, &recording, std::future::pending()).await });

    let (status, body) = post(&url, &asked).await;
    assert_eq!((status, body.contains("hunter2")), (200, true), "relayed as it is: {body}");
    let (_, missing) = post(&url, &json!({"id": 2, "method": "tools/call", "params": {}})).await;
    assert!(missing.contains("NOT_RECORDED"), "{missing}");
    assert_eq!(recorder.finish().messages, 4);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let again = Tape::new(&Cassette::read(&path).unwrap(), &[]);
    assert_eq!(again.requests(), 2);
}

/// A response comes after any number of events, and a question waits for its answer.
#[tokio::test]
async fn events_of_a_request_are_replayed_to_its_end() {
    let mut text = "{\"cassette\":1}\n".to_owned();
    let mut add = |from: &str, message: Value| {
        text += &format!("{}\n", json!({"from": from, "message": message}));
    };
    let params = json!({"name": "a", "_meta": {"progressToken": "t"}});
    add("client", json!({"id": 0, "method": "initialize", "params": {}}));
    add("server", json!({"id": 0, "result": {}}));
    add("client", json!({"id": 1, "method": "tools/call", "params": params}));
    for number in 0..12_000 {
        let params = json!({"progressToken": "t", "progress": number});
        add("server", json!({"method": "notifications/progress", "params": params}));
    }
    add("server", json!({"id": 5, "method": "elicitation/create", "params": {"message": "?"}}));
    add("client", json!({"id": 5, "result": {"action": "accept"}}));
    add("server", json!({"id": 1, "result": {"text": "the end"}}));
    let tape = Arc::new(Tape::new(&Cassette::parse(text.as_bytes()).unwrap(), &[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = ReplayServer::new(tape, ReplayOptions::default());
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });

    // Without a session: one player for all.
    let ask = json!({"id": 9, "method": "tools/call", "params": params});
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let asking = async move {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let (text, host) = (ask.to_string(), "host: localhost\r\nconnection: close");
        let length = text.len();
        let request =
            format!("POST /mcp HTTP/1.1\r\n{host}\r\ncontent-length: {length}\r\n\r\n{text}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut body = String::new();
        stream.read_to_string(&mut body).await.unwrap();
        body
    };
    // The question is asked when the request has come; its id is known.
    let answer = json!({"id": "replay-1", "result": {"action": "accept"}});
    let answering = async {
        loop {
            let (status, _) = post(&url, &answer).await;
            assert_eq!(status, 202);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let body = tokio::select! {
        answered = mcp_flow_testkit::wait::within("the response", asking) => answered,
        () = answering => unreachable!(),
    };
    let events: Vec<Value> = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(events.len(), 12_002, "{}", &body[..body.len().min(500)]);
    let numbers = events.iter().filter_map(|event| event["params"]["progress"].as_u64());
    assert!(numbers.eq(0..12_000));
    assert_eq!(events[12_000]["method"], "elicitation/create");
    assert_eq!(events[12_001]["result"]["text"], "the end");
    assert_eq!(events[12_001]["id"], 9);
}
