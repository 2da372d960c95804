//! Recording and replaying over HTTP.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_cassette::{Cassette, HttpRelay, Recorder, ReplayOptions, ReplayServer, Tape};
use mcp_flow_http_client::{Fetch, HttpOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn post(url: &str, message: &Value) -> (u16, String) {
    let fetch = Fetch::new(&HttpOptions::new(), 1 << 20, Duration::from_secs(20)).unwrap();
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
    let relay = HttpRelay::new(&target, &HttpOptions::new(), recorder.clone()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{}", listener.local_addr().unwrap(), relay.path());
    let relaying = relay.clone();
    tokio::spawn(async move { relaying.serve(listener, std::future::pending()).await });

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
