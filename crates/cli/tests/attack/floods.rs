//! Resource exhaustion: too many connections, sessions, streams, messages and requests (WT-069,
//! INT-107, INT-108, PAT-024, PAT-036).

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use mcp_flow::webtransport::client;
use mcp_flow_testkit::http::{Connection, Request};
use serde_json::json;

use crate::attack::connection::{TestConnection, Transport, connect, start_session};
use crate::attack::raw_http::{Socket, first_status, frame};
use crate::attack::report::TableReport;
use crate::attack::target::Target;
use crate::attack::webtransport::{settings, url};

/// PAT-024: connections above the limit are rejected until others have closed; of sessions the
/// oldest are dropped.
#[tokio::test]
async fn connections_and_sessions_are_bounded() {
    let limits = "[limits]\nconnections = 50\nwebtransport_connections = 8\nsessions = 20\n";
    let target = Target::open(limits, &[]).await;
    let mut report = TableReport::default();
    let open = (0..100).map(|_| async {
        let mut connection = Connection::open(target.address).await;
        connection.write(&Request::get("/sse").bytes()).await;
        connection.try_response().await
    });
    let open: Vec<_> = join_all(open).await;
    let served = open.iter().flatten().filter(|answer| answer.status == 200).count();
    report.check("100 streams of events", served <= 50, format_args!("{served} are open"));
    let others = open.iter().flatten().filter(|answer| ![200, 503].contains(&answer.status));
    report.compare("refused otherwise", others.count(), 0);
    drop(open);
    let open = (0..20).map(|_| client::connect(url(&target), settings(&target, None)));
    let open: Vec<_> = join_all(open).await;
    let served = open.iter().flatten().count();
    report.check("20 sessions by WebTransport", served <= 8, format_args!("{served} are open"));
    drop(open);
    let is_free =
        crate::attack::resource_usage::becomes_true_within(Duration::from_secs(20), async || {
            first_status(&target, &Request::get("/healthz").bytes()).await == Some(200)
        });
    report.check("room again", is_free.await, "there is none");
    let mut sessions = Vec::new();
    for _ in 0..60 {
        sessions.push(start_session(target.address, None).await);
    }
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let mut known = 0;
    for id in &sessions {
        let post = Request::post("/mcp", &ping).header("mcp-session-id", id);
        known += usize::from(post.send(target.address).await.status == 200);
    }
    report.compare("60 sessions", known, 20);
    report.finish(5);
    let settled =
        crate::attack::resource_usage::becomes_true_within(Duration::from_secs(20), async || {
            client::connect(url(&target), settings(&target, None)).await.is_ok()
        });
    assert!(settled.await, "there is no room for a session by WebTransport");
    target.assert_recovered(64).await;
}

/// WT-069: endless meaningless streams, datagrams, frames, pings and cancellations are bounded, and
/// a concurrent connection is served as before.
#[tokio::test]
async fn floods_on_one_connection_are_limited() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    let mut concurrent = TestConnection::open(&target, Transport::WebTransport).await;
    let (flow, mut webtransport) =
        client::connect(url(&target), settings(&target, None)).await.unwrap();
    flow.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.unwrap();
    let answered = mcp_flow_testkit::wait::within("an answer to a ping", webtransport.next());
    assert!(answered.await.is_some());
    let session = flow.session().clone();
    let (mut one_way, mut both_ways) = (Vec::new(), Vec::new());
    while let Some(Ok(mut stream)) = session.open_uni().now_or_never() {
        let _ = stream.write(&[0xff; 64]).now_or_never();
        one_way.push(stream);
        if one_way.len() > 1000 {
            break;
        }
    }
    while let Some(Ok(stream)) = session.open_bi().now_or_never() {
        both_ways.push(stream);
        if both_ways.len() > 1000 {
            break;
        }
    }
    report.check("unidirectional streams", one_way.len() <= 64, one_way.len());
    report.check("bidirectional streams", both_ways.len() <= 64, both_ways.len());
    for number in 0..5000_u32 {
        let _ = session.send_datagram(number.to_be_bytes().to_vec().into());
    }
    let received = concurrent.call("tools/list", json!({})).await;
    report.check(
        "another session meanwhile",
        received.code().is_none(),
        format_args!("{received:?}"),
    );
    drop((one_way, both_ways, session, flow, webtransport));

    let mut socket = Socket::open(&target).await;
    for _ in 0..200 {
        socket.write(&frame(0x89, &[b'x'; 100]).repeat(50)).await;
    }
    socket.write(&frame(0x81, br#"{"jsonrpc":"2.0","id":"behind","method":"ping"}"#)).await;
    let behind = async {
        while let Some((_, payload)) = socket.frame().await {
            if String::from_utf8_lossy(&payload).contains("behind") {
                return true;
            }
        }
        false
    };
    let behind = tokio::time::timeout(Duration::from_secs(20), behind).await;
    report.compare("10,000 pings", behind.ok(), Some(true));
    drop(socket);

    for transport in [Transport::Tcp, Transport::Unix, Transport::Sse, Transport::WebSocket] {
        let mut peer = connect(&target, transport, None).await;
        peer.initialize(mcp_flow::Revision::V2025_11_25).await;
        let many = if transport == Transport::Sse { 200 } else { 5000 };
        for number in 0..many {
            peer.notify("notifications/cancelled", json!({"requestId": number}));
            peer.notify("notifications/no/such", json!({"x": number}));
        }
        let received = peer.settle().await;
        report.check(
            format!("{transport:?} cancels"),
            received.is_empty(),
            format_args!("{received:?}"),
        );
    }
    report.finish(8);
    target.assert_recovered(96).await;
}

/// INT-107, PAT-036: a burst is rejected with a retry delay over every transport, and with 429 over
/// HTTP.
#[tokio::test]
async fn bursts_are_refused() {
    let limits = "[limits]\nsession_requests_per_second = 0.1\nsession_request_burst = 10\n";
    let target = Target::open(limits, &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        // A stateless request has no session, and a stdio process has its own limits.
        if matches!(transport, Transport::Stateless | Transport::Stdio) {
            continue;
        }
        let mut connection = TestConnection::open(&target, transport).await;
        for number in 0..20 {
            let received = connection.call("tools/list", json!({})).await;
            // The handshake was one of them.
            let expected = (number >= 9).then_some("RATE_LIMITED");
            let row = format!("{transport:?} {number}");
            report.compare(&row, received.name(), expected);
            if number >= 9 {
                let wait = &received.messages[0]["error"]["data"]["retryAfterMs"];
                report.check(&row, wait.is_u64(), wait);
                report.check(
                    &row,
                    received.status.is_none_or(|status| status == 429),
                    "another status",
                );
            }
        }
    }
    report.finish(200);
    target.assert_recovered(64).await;
}

/// INT-108: the number of sessions of one principal is limited.
#[tokio::test]
async fn session_rates_are_limited() {
    let target = Target::open("", &[]).await;
    let mut connection = TestConnection::open(&target, Transport::Tcp).await;
    let (mut begun, mut refused) = (0, 0);
    for _ in 0..1100 {
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 1}});
        match connection.call("interaction.start", params).await.code() {
            None => begun += 1,
            Some(_) => refused += 1,
        }
    }
    assert_eq!((begun, refused), (1000, 100));
    drop(connection);
    target.assert_recovered(128).await;
}
