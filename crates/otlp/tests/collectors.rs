//! Collectors that refuse, hang, reject or recover: calls go on, and what is lost is counted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mcp_flow_otlp::{Telemetry, TelemetryDefaults, TelemetrySettings, read_environment};
use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Server, Tool};
use mcp_flow_testkit_fixture::memory::connect;
use serde_json::{Value, json};

/// Settings that export spans only, soon, and give up soon.
fn settings(endpoint: &str, further: &[(&str, &str)]) -> TelemetrySettings {
    let mut variables = vec![
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "200"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "300"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "100"),
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    variables.extend_from_slice(further);
    let find = |name: &str| {
        // The last one counts.
        let found = variables.iter().rev().find(|(other, _)| *other == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let mut warnings = Vec::new();
    let settings = read_environment(&TelemetryDefaults::default(), find, &mut warnings);
    assert_eq!(warnings, [""; 0]);
    settings
}

async fn call(telemetry: &Telemetry, calls: usize) {
    let echo = Tool::builder("echo").quick(|_: &Context, given: Value| given.to_string()).unwrap();
    let server = telemetry.add_to(Server::builder("traced", "1.0.0").tools([echo])).build();
    let mut peer = connect(&server.unwrap());
    peer.initialize(Revision::V2025_11_25).await;
    for number in 0..calls {
        let reply = peer.call_tool("echo", json!({"number": number})).await;
        assert!(reply.to_string().contains(&number.to_string()), "{reply}");
    }
}

fn dropped(telemetry: &Telemetry) -> u64 {
    let text = telemetry.metrics()();
    let prefix = "mcp_flow_telemetry_dropped_total{signal=\"traces\"} ";
    let line = text.lines().find_map(|line| line.strip_prefix(prefix));
    line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

/// Accepts connections and hands them over.
fn listen() -> (String, Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, accepted) = channel();
    std::thread::spawn(move || {
        // Ends with the test that holds the receiver.
        while let Ok((stream, _)) = listener.accept() {
            if sender.send(stream).is_err() {
                break;
            }
        }
    });
    (endpoint, accepted)
}

/// Reads one request, and returns its path.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().unwrap();
    stream.read_exact(&mut vec![0; length]).ok()?;
    Some(head.split(' ').nth(1)?.to_owned())
}

fn reply(stream: &mut TcpStream, status: &str) {
    let reply = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(reply.as_bytes()).unwrap();
}

/// A collector that accepts and never answers, and one that refuses: all calls are answered, spans
/// beyond the queue are dropped and counted, and the end does not wait for it.
#[tokio::test]
async fn a_collector_that_hangs_or_refuses_disturbs_no_call() {
    let (hanging, _accepted) = listen();
    for (endpoint, protocol) in [
        (hanging.as_str(), "http/protobuf"),
        (&hanging, "grpc"),
        ("http://127.0.0.1:1", "http/protobuf"),
        ("http://127.0.0.1:1", "grpc"),
        ("http://no-such-host.invalid:4318", "http/protobuf"),
    ] {
        let settings = settings(endpoint, &[("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]);
        let telemetry = Telemetry::start(&settings).unwrap().unwrap();
        call(&telemetry, 2000).await;
        assert!(dropped(&telemetry) > 0, "{endpoint} {protocol}");
        tokio::task::spawn_blocking(|| telemetry.stop()).await.unwrap();
    }
}

/// A collector that is overloaded gets the same spans again; one that rejects them does not.
#[tokio::test]
async fn temporary_errors_are_retried_and_others_are_not() {
    for (status, requests) in [("503 Service Unavailable", 2), ("400 Bad Request", 1)] {
        let (endpoint, accepted) = listen();
        let patient =
            [("OTEL_BSP_EXPORT_TIMEOUT", "60000"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "60000")];
        let telemetry = Telemetry::start(&settings(&endpoint, &patient)).unwrap().unwrap();
        call(&telemetry, 1).await;
        let served = tokio::task::spawn_blocking(move || {
            let limit = Duration::from_secs(60);
            let mut stream = accepted.recv_timeout(limit).expect("it connects");
            stream.set_read_timeout(Some(limit)).unwrap();
            assert_eq!(read_request(&mut stream).as_deref(), Some("/v1/traces"));
            reply(&mut stream, status);
            if requests == 2 {
                assert!(read_request(&mut stream).is_some(), "it is sent again");
                reply(&mut stream, "200 OK");
            }
            (stream, accepted)
        });
        let _open = served.await.unwrap();
        let lost = if requests == 2 { 0 } else { 1 };
        // The answer is on its way.
        let counted = async {
            while dropped(&telemetry) < lost {
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, counted).await.expect("what was rejected is counted");
        tokio::task::spawn_blocking(|| telemetry.stop()).await.unwrap();
    }
}

/// Unusable settings are reported when telemetry starts, and disabled signals cost nothing.
#[test]
fn settings_that_cannot_be_used_are_reported() {
    let further = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file.pem")];
    let error = Telemetry::start(&settings("https://127.0.0.1:1", &further)).unwrap_err();
    assert!(error.to_string().contains("/no/such/file.pem"), "{error}");
    let off = [("OTEL_SDK_DISABLED", "true")];
    assert!(Telemetry::start(&settings("http://127.0.0.1:1", &off)).unwrap().is_none());
}
