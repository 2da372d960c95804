//! Slow clients that hold resources (INT-106).

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use mcp_flow_testkit::http::Connection;
use web_transport_quinn::Session;
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::ConnectionError;

use crate::attack::raw_http::{Socket, frame};
use crate::attack::report::TableReport;
use crate::attack::target::Target;
use crate::attack::webtransport::{dial, url};

/// INT-106: clients that stall are disconnected or get 408, while others are served.
#[tokio::test]
async fn slow_clients_are_disconnected() {
    let limits = "[limits]\nhead_seconds = 1\nbody_seconds = 1\nkeep_alive_seconds = 1\n";
    let target = Target::open(limits, &[]).await;
    let mut report = TableReport::default();
    let mut rows: Vec<(String, BoxFuture<'_, bool>)> = Vec::new();
    for _ in 0..5 {
        for head in HEADS {
            rows.push((format!("head {head:?}"), stalls(&target, head).boxed()));
            rows.push((format!("trickling {head:?}"), trickles(&target, head, "x", None).boxed()));
        }
        for body in ["content-length: 100\r\n\r\n{", "transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"]
        {
            for path in ["/mcp", "/mcp?x"] {
                let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{MEDIA}{body}");
                rows.push((format!("body {body:?}"), silent_body(&target, head).boxed()));
            }
        }
        let head =
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{MEDIA}content-length: 9999\r\n\r\n");
        rows.push((
            "a trickling body".into(),
            async {
                let head = head;
                trickles(&target, &head, " ", Some(408)).await
            }
            .boxed(),
        ));
        for half in [&b""[..], b"\x81", b"\x81\xfe", b"\x81\x85\0\0\0\0{", b"\x89"] {
            rows.push((format!("half a frame {half:x?}"), half_a_frame(&target, half).boxed()));
        }
        rows.push(("half a message".into(), half_a_message(&target).boxed()));
        rows.push(("no session".into(), no_session(&target).boxed()));
        rows.push(("no control stream".into(), no_control_stream(&target).boxed()));
    }
    let (names, attacks): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let limit = |attack| tokio::time::timeout(Duration::from_secs(25), attack);
    let disconnected = join_all(attacks.into_iter().map(limit)).await;
    for (name, disconnected) in names.into_iter().zip(disconnected) {
        report.compare(name, disconnected.ok(), Some(true));
    }
    report.finish(100);
    target.assert_recovered(64).await;
}

/// Heads that stop in the middle.
const HEADS: &[&str] = &[
    "G",
    "POST /mcp HTTP/1.1\r\n",
    "POST /mcp HTTP/1.1\r\nhost: local",
    "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: ",
    "GET /sse HTTP/1.1\r\nhost: localhost\r\nx: ",
    "GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nx: ",
];

const MEDIA: &str = "content-type: application/json\r\naccept: */*\r\n";

/// Returns whether a client that stalls is disconnected.
async fn stalls(target: &Target, head: &str) -> bool {
    let mut connection = Connection::open(target.address).await;
    connection.write(head.as_bytes()).await;
    connection.try_response().await.is_none_or(|answer| answer.status == 408)
}

/// Returns whether a client that trickles bytes is rejected: disconnected, or with a status.
async fn trickles(target: &Target, head: &str, piece: &str, status: Option<u16>) -> bool {
    let stream = tokio::net::TcpStream::connect(target.address).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let (_, drain) = tokio::io::duplex(64);
    let answer = Connection::over(tokio::io::join(reader, drain)).try_response();
    let trickling = async {
        use tokio::io::AsyncWriteExt;
        let mut next = head;
        while writer.write_all(next.as_bytes()).await.is_ok() {
            next = piece;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = answer => match (answer, status) {
            (Some(answer), Some(status)) => answer.status == status,
            (None, None) => true,
            (Some(answer), None) => answer.status == 408,
            (None, Some(_)) => false,
        },
        () = trickling => false,
    }
}

async fn silent_body(target: &Target, head: String) -> bool {
    let mut connection = Connection::open(target.address).await;
    connection.write(head.as_bytes()).await;
    connection.try_response().await.is_some_and(|answer| answer.status == 408)
}

/// Begins a WebSocket frame without finishing it, and answers no ping.
async fn half_a_frame(target: &Target, half: &[u8]) -> bool {
    let mut socket = Socket::open(target).await;
    socket.write(half).await;
    socket.close_code().await == Some(1001)
}

async fn half_a_message(target: &Target) -> bool {
    let mut socket = Socket::open(target).await;
    socket.write(&frame(0x01, b"{")).await;
    socket.close_code().await == Some(1001)
}

async fn no_session(target: &Target) -> bool {
    let (_endpoint, connection) = dial(target, "h3").await.unwrap();
    // The server closed the session with a reason; a lost one would time out as well.
    matches!(connection.closed().await, ConnectionError::ApplicationClosed(_))
}

async fn no_control_stream(target: &Target) -> bool {
    let (_endpoint, connection) = dial(target, "h3").await.unwrap();
    let request = ConnectRequest::new(url(target).parse::<::url::Url>().unwrap());
    let session = Session::connect(connection, request).await.unwrap();
    session.closed().await.to_string().contains("no control stream")
}
