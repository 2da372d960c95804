//! Idle clients.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_server::ConnectionInfo;
use mcp_flow_testkit::lines;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

/// WFL-055: hours of silence do no harm, and no heartbeat is sent.
#[tokio::test(start_paused = true)]
async fn idle_connections_stay_open() {
    let server = Fixture::new().server;
    let (ours, theirs) = tokio::io::duplex(4096);
    let connection = server.connect(ConnectionInfo::new("stdio")).unwrap();
    let served = tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(theirs);
        let never = std::future::pending();
        mcp_flow_stdio::lines::drive(&connection, reader, writer, never).await.unwrap();
    });
    let (reader, writer) = tokio::io::split(ours);
    let mut peer = lines::connect(reader, writer, ());
    peer.initialize(Revision::V2024_11_05).await;
    let before = peer.call_tool("math.add", json!({"a": 2, "b": 3})).await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(12 * 60 * 60)).await;
        assert!(!served.is_finished());
        let after = peer.call_tool("math.add", json!({"a": 2, "b": 3})).await;
        assert_eq!(after["result"], before["result"]);
    }
    assert_eq!(peer.settle().await, Vec::<Value>::new(), "nothing was said unasked");
}
