//! The relay between HTTP clients and a server.

use std::sync::Arc;

use mcp_flow_cassette::{Cassette, HttpRelay, Recorder, ReplayOptions, ReplayServer, Tape};
use mcp_flow_http_client::HttpOptions;
use mcp_flow_testkit::wait::within;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that passes on what it is sent, and answers some of it.
async fn server(answer: Option<&'static str>) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            tokio::spawn(async move {
                let mut text = String::new();
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
                    if text.contains('}') {
                        sender.send(std::mem::take(&mut text)).unwrap();
                        if let Some(answer) = answer {
                            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json";
                            let length = answer.len();
                            let response =
                                format!("{head}\r\ncontent-length: {length}\r\n\r\n{answer}");
                            stream.write_all(response.as_bytes()).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    (address, received)
}

/// Starts a relay, and returns its address.
async fn relay(target: &str, recorder: &Recorder) -> String {
    let relay = HttpRelay::new(target, &HttpOptions::new()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let recorder = recorder.clone();
    tokio::spawn(async move { relay.serve(listener, &recorder, std::future::pending()).await });
    address
}

/// Sends a request with these headers.
async fn post(address: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!("POST /mcp HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn head_of(mut stream: TcpStream) -> String {
    let (mut text, mut buffer) = (String::new(), [0; 4096]);
    while !text.contains("\r\n\r\n") {
        let read = within("a response", stream.read(&mut buffer)).await.unwrap();
        assert!(read > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

/// The query of the target is sent, its credentials as a header, and neither is recorded or named as host.
#[tokio::test]
async fn the_target_is_reached_with_its_query_and_credentials() {
    let (address, mut received) = server(Some("{\"id\":1,\"result\":{}}")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let target = format!("http://me:hunter2@{address}/mcp?token=hunter2");
    let recorder = Recorder::create(&path, "http", &target, &[]).unwrap();
    let relay = relay(&target, &recorder).await;
    let body = json!({"id": 1, "method": "ping"}).to_string();
    let stream = post(&relay, &format!("host: {relay}\r\n"), &body).await;
    let sent = within("the request", received.recv()).await.unwrap().to_lowercase();
    assert!(sent.starts_with("post /mcp?token=hunter2 http/1.1"), "{sent}");
    // Both are on this machine: links that the server builds lead through the relay.
    assert!(sent.contains(&format!("\r\nhost: {relay}\r\n")), "{sent}");
    assert!(sent.contains("\r\nauthorization: basic "), "{sent}");
    assert!(head_of(stream).await.starts_with("HTTP/1.1 200"));
    recorder.finish();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("hunter2") && text.contains("\"ping\""), "{text}");
}

/// A server that must be named by its own host links to itself: the links lead through the relay, and are
/// recorded as they were.
#[tokio::test]
async fn links_of_servers_elsewhere_lead_through_the_relay() {
    // Not what clients call this machine.
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let link = |host: &str| format!("{{\"id\":1,\"result\":\"http://{host}/in/download/1\"}}");
    let own = link(&address);
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            stream.read_buf(&mut request).await.unwrap();
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{own}", own.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let recorder = Recorder::create(&path, "http", "x", &[]).unwrap();
    let relay = relay(&format!("http://{address}/in/mcp"), &recorder).await;
    let headers = format!("host: {relay}\r\nconnection: close\r\n");
    let mut stream = post(&relay, &headers, "{\"id\":1}").await;
    let mut answer = String::new();
    within("the answer", stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains(&link(&relay)) && !answer.contains("content-length"), "{answer}");
    recorder.finish();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(&format!("http://{address}/in/download/1")), "{text}");
}

/// WebTransport is not relayed by a program that speaks HTTP: the error says how it is recorded.
#[test]
fn targets_of_other_transports_are_refused() {
    for (target, said) in [
        ("https://localhost:1/mcp-flow", "mcp-flow bridge"),
        ("tcp://localhost:1", "mcp-flow bridge"),
        ("ftp://localhost/mcp", "http, https"),
    ] {
        let refused = HttpRelay::new(target, &HttpOptions::new()).unwrap_err().to_string();
        assert!(refused.contains(said), "{target}: {refused}");
    }
    HttpRelay::new("https://localhost:1/mcp", &HttpOptions::new()).unwrap();
}

/// Pages of others cannot use the relay, by whatever name they have this machine resolved.
#[tokio::test]
async fn requests_of_other_origins_are_refused() {
    let (address, mut received) = server(Some("{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(&folder.path().join("a"), "http", "x", &[]).unwrap();
    let relay = relay(&format!("http://{address}/mcp"), &recorder).await;
    for (headers, status) in [
        ("host: evil.example\r\n".to_owned(), "403"),
        (format!("host: {relay}\r\norigin: https://evil.example\r\n"), "403"),
        (format!("host: {relay}\r\norigin: http://localhost:1\r\n"), "200"),
    ] {
        let head = head_of(post(&relay, &headers, "{\"id\":1}").await).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{headers}: {head}");
    }
    received.close();
    assert!(within("the allowed request", received.recv()).await.is_some());
    assert!(received.recv().await.is_none(), "nothing else was sent on");
}

/// A request whose client goes before the server answers is recorded.
#[tokio::test]
async fn abandoned_requests_are_recorded() {
    let (address, mut received) = server(None).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let recorder = Recorder::create(&path, "http", "x", &[]).unwrap();
    let relay = relay(&format!("http://{address}/mcp"), &recorder).await;
    let body = json!({"id": 1, "method": "abandoned"}).to_string();
    let stream = post(&relay, &format!("host: {relay}\r\n"), &body).await;
    within("the request", received.recv()).await.unwrap();
    drop(stream);
    let recorded = async {
        while !std::fs::read_to_string(&path).unwrap().contains("abandoned") {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the record of the request", recorded).await;
}

/// Clients of the legacy transport use the same ids; each is a connection of its own.
#[tokio::test]
async fn clients_of_the_legacy_transport_are_told_apart() {
    let call = |name: &str| json!({"id": 2, "method": "tools/call", "params": {"name": name}});
    let mut lines = "{\"cassette\":1}\n".to_owned();
    for name in ["a", "b"] {
        for (from, message) in
            [("client", call(name)), ("server", json!({"id": 2, "result": name}))]
        {
            lines += &format!("{}\n", json!({"from": from, "message": message}));
        }
    }
    let tape = Arc::new(Tape::new(&Cassette::parse(lines.as_bytes()).unwrap(), &[]));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("http://{}/sse", listener.local_addr().unwrap());
    let server = ReplayServer::new(tape, ReplayOptions::default());
    tokio::spawn(async move { server.serve(listener, std::future::pending()).await });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let recorder = Recorder::create(&path, "http", "x", &[]).unwrap();
    let relay = relay(&target, &recorder).await;

    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut events = TcpStream::connect(&relay).await.unwrap();
        events.write_all(b"GET /sse HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let endpoint = read_line(&mut events, "data: ").await;
        clients.push((events, endpoint));
    }
    for ((_, endpoint), name) in clients.iter().zip(["a", "b"]) {
        let mut stream = TcpStream::connect(&relay).await.unwrap();
        let body = call(name).to_string();
        let head = format!("POST {endpoint} HTTP/1.1\r\nhost: localhost\r\ncontent-length: ");
        let request = format!("{head}{}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).await.unwrap();
        assert!(head_of(stream).await.starts_with("HTTP/1.1 202"));
    }
    for (events, _) in &mut clients {
        read_line(events, "data: {").await;
    }
    recorder.finish();
    let exchanges = Cassette::read(&path).unwrap().exchanges();
    let told: Value = exchanges
        .iter()
        .map(|one| json!([one["connection"], one["params"]["name"], one["result"]]))
        .collect();
    assert_eq!(told, json!([[2, "a", "a"], [3, "b", "b"]]));
}

/// The rest of the first line that begins so.
async fn read_line(stream: &mut TcpStream, start: &str) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    loop {
        within("a line", stream.read_exact(&mut byte)).await.unwrap();
        match byte[0] {
            b'\n' => match line.trim_end().strip_prefix(start) {
                Some(rest) => return rest.to_owned(),
                None => line.clear(),
            },
            other => line.push(char::from(other)),
        }
    }
}
