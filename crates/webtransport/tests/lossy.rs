//! Results over a path that delays and loses packets.

use std::time::Duration;

use crate::support::{Caller, Running, options};
use mcp_flow_proto::Encoding;
use mcp_flow_proto::webtransport::DatagramChannel;
use mcp_flow_server::{Bulk, Context, Limits, Tool};
use mcp_flow_testkit::relay::{Quality, Relay};
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_webtransport::client::{ConnectSettings, TransportEvent};
use serde_json::{Value, json};

/// WT-049, WT-052, WT-053, WT-055: results arrive complete, on streams and as messages, and pings
/// are answered meanwhile.
#[tokio::test]
async fn results_are_complete_despite_packet_loss() {
    tokio::join!(results_are_complete(0.02, 500_000), results_are_complete(0.3, 30_000));
}

async fn results_are_complete(loss: f64, bytes: usize) {
    let (_running, relay, mut caller) = connect(loss).await;
    let arguments = json!({"name": "numbers", "arguments": {"bytes": bytes}});
    for id in [10, 11] {
        caller.ask(id, "tools/call", arguments.clone()).await;
    }
    assert_eq!(caller.call(12, "ping", json!({})).await["result"], json!({}), "{loss}");
    for id in [11_u32, 10] {
        let reply = caller.reply_to(id).await;
        let item = &reply["result"]["content"][0];
        assert_eq!(item["type"], "ref/stream", "{loss}: {reply}");
        let tag = item["streamTag"].as_u64().and_then(|tag| u32::try_from(tag).ok()).unwrap();
        let stream = caller.stream(id, tag).await;
        let pinging = async {
            let mut pings = 100;
            loop {
                pings += 1;
                assert_eq!(caller.call(pings, "ping", json!({})).await["result"], json!({}));
            }
        };
        let read = tokio::select! {
            read = crate::support::read(stream) => read,
            () = pinging => unreachable!("it goes on without end"),
        };
        assert!(read == numbers(bytes), "{loss}: {} bytes of {bytes} came", read.len());
    }
    let reply = caller.call_tool(13, "who").await;
    assert_eq!(reply["result"]["structuredContent"]["revision"], "2025-11-25");
    assert!(relay.lost() > 0, "nothing was lost, so nothing was tried");
}

/// WT-070, WT-025, C-45: heavy loss reduces the number of datagrams, and the last progress always
/// arrives.
#[tokio::test]
async fn packet_loss_reduces_the_datagram_rate() {
    let (few, many) = tokio::join!(progress_of_a_call(0.02), progress_of_a_call(0.3));
    // Far fewer than the loss alone explains.
    assert!(many * 2 < few, "{few} datagrams at 2 % loss, and still {many} at 30 %");
}

/// Returns the number of progress values of a call that arrived by datagram.
async fn progress_of_a_call(loss: f64) -> usize {
    let (_running, _relay, mut caller) = connect(loss).await;
    let params = json!({"name": "tick", "arguments": {}, "_meta": {"progressToken": "t"}});
    caller.ask(20, "tools/call", params).await;
    let reply = caller.reply_to(20).await;
    assert_eq!(reply["result"]["content"][0]["text"], "ticked", "{loss}");
    let last = caller.notice("notifications/progress").await;
    assert_eq!(last["progress"], f64::from(TICKS), "{loss}");
    let events = caller.settle().await;
    let is_progress = |event: &&TransportEvent| {
        matches!(
            event,
            TransportEvent::Datagram { channel: DatagramChannel::Progress, request: 20, .. }
        )
    };
    events.iter().filter(is_progress).count()
}

/// A server, and a client that reaches it over such a path.
async fn connect(loss: f64) -> (Running, Relay, Caller) {
    let numbers = Tool::builder("numbers").quick(|_: &Context, arguments: Value| {
        let bytes = arguments["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok());
        Bulk::reader("numbers", std::io::Cursor::new(numbers(bytes.unwrap_or_default())))
    });
    let tick = Tool::builder("tick").handler(async |context: Context, _: Value| {
        for tick in 1..=TICKS {
            tokio::time::sleep(Duration::from_millis(1)).await;
            context.progress(tick.into(), Some(TICKS.into()), None);
        }
        "ticked"
    });
    let tools = [numbers, tick].map(Result::unwrap);
    let limits = Limits { inline_bytes: 1024, ..Limits::default() };
    let fixture = Fixture::with(|builder| builder.limits(limits).tools(Vec::from(tools)));
    // Lost packets of the handshake are retransmitted after a second, two, four and so on.
    let patient = options(|options| options.handshake_timeout = LIMIT);
    let mut running = crate::support::start_with(&fixture.server, patient);
    let server = ([127, 0, 0, 1], running.port).into();
    let delay = Duration::from_millis(20);
    let relay = Relay::start(server, Quality { delay, loss: 0.02 }).await;
    running.url = format!("https://{}/mcp-flow", relay.address());
    let settings =
        ConnectSettings { connect_timeout: LIMIT, grace_period: LIMIT, ..running.settings() };
    let mut caller = running.connect_with(settings).await;
    caller.initialize(&[Encoding::Cbor]).await;
    relay.set(Quality { delay, loss });
    (running, relay, caller)
}

/// Bytes that show whether any are missing, duplicated or misplaced.
fn numbers(bytes: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_be_bytes).take(bytes).collect()
}

const TICKS: u32 = 1500;

/// Time limit for everything on such a path.
const LIMIT: Duration = Duration::from_secs(60);
