//! Datagrams: progress, logs and audio that may be lost (WT-019 to WT-028, WT-048, WT-061).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Caller, Running, start};
use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::webtransport::{AudioChunk, DatagramChannel};
use mcp_flow_proto::{Encoding, Raw};
use mcp_flow_server::datagram::{AudioFormat, NotSupported};
use mcp_flow_server::{Context, Server, Tool};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_webtransport::client::{ConnectSettings, TransportEvent};
use serde_json::{Value, json};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// WT-025, WT-028, C-45, C-15: intermediate progress is sent as datagrams about its request in the
/// negotiated encoding; the last one is sent as a message before the result.
#[tokio::test]
async fn progress_is_sent_as_datagrams() {
    let running = start(&server());
    for encoding in Encoding::ALL {
        for (tool, last) in [("steps", 3.0), ("steps_without_total", 3.0)] {
            let mut caller = running.connect().await;
            caller.initialize(&[encoding]).await;
            let meta = json!({"progressToken": "t"});
            caller.ask(42, "tools/call", json!({"name": tool, "_meta": meta})).await;
            let (channel, request, payload) = caller.datagram().await;
            assert_eq!((channel, request), (DatagramChannel::Progress, 42));
            let progress = decode(&payload, encoding);
            assert_eq!(
                (&progress["progressToken"], &progress["progress"]),
                (&json!("t"), &json!(1.0))
            );
            let message = caller.message(|_| true).await;
            assert_eq!(message["method"], "notifications/progress", "{tool}: {message}");
            assert_eq!(message["params"]["progress"], last);
            assert_eq!(caller.message(|_| true).await["id"], 42);
        }
    }
}

/// WT-027: log messages are sent as datagrams about their request, unless they must not be lost.
#[tokio::test]
async fn log_messages_are_sent_as_datagrams() {
    let (running, mut caller) = ready(|_| {}).await;
    caller.ask(7, "tools/call", json!({"name": "log", "arguments": {}})).await;
    let (channel, request, payload) = caller.datagram().await;
    assert_eq!((channel, request), (DatagramChannel::Log, 7));
    assert_eq!(decode(&payload, Encoding::Cbor)["data"], "all is well");
    let counts = running.datagrams.text();
    assert!(counts.contains("\nmcp_flow_datagrams_sent_total 1\n"), "{counts}");
    assert_eq!(caller.notice("notifications/message").await["data"], "all is lost");
    caller.reply_to(7).await;
}

/// WT-026: audio is announced and arrives in numbered chunks.
#[tokio::test]
async fn audio_is_sent_in_numbered_chunks() {
    let (_running, mut caller) = ready(|_| {}).await;
    caller.ask(9, "tools/call", json!({"name": "sound", "arguments": {}})).await;
    let announced = caller.notice("$/audio").await;
    assert_eq!(
        announced,
        json!({"requestId": 9, "codec": "audio/L16", "sampleRate": 8000, "channels": 1})
    );
    for sequence in 0..5 {
        let (channel, request, payload) = caller.datagram().await;
        assert_eq!((channel, request), (DatagramChannel::Audio, 9));
        let chunk = AudioChunk::decode(&payload).unwrap();
        assert_eq!((chunk.sequence, chunk.timestamp), (sequence, sequence * 20));
        assert_eq!(chunk.data, [7; 320]);
    }
    caller.reply_to(9).await;
}

/// WT-048: without datagrams progress is sent as messages, and audio not at all.
#[tokio::test]
async fn progress_falls_back_to_messages() {
    let (_running, mut caller) = ready(|settings| settings.datagrams = false).await;
    let params = json!({"name": "steps", "_meta": {"progressToken": 1}});
    caller.ask(2, "tools/call", params).await;
    for expected in [1.0, 2.0, 3.0] {
        assert_eq!(caller.notice("notifications/progress").await["progress"], expected);
    }
    let refused = caller.call_tool(3, "sound").await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["name"]),
        (&json!(-32004), &json!("DATAGRAM_NOT_SUPPORTED"))
    );
    let running = start(&server());
    let settings = ConnectSettings { datagrams: false, ..running.settings() };
    let mut caller = running.connect_with(settings).await;
    let reply = caller.initialize(&[Encoding::Json]).await;
    assert_eq!(reply["result"]["transport"]["datagramsSupported"], false);
}

/// WT-061: after a cancellation no more datagrams about the request arrive.
#[tokio::test]
async fn cancelling_stops_datagrams() {
    let (_running, mut caller) = ready(|_| {}).await;
    let params = json!({"name": "chatter", "_meta": {"progressToken": 1}});
    caller.ask(5, "tools/call", params).await;
    caller.datagram().await;
    // Sent without tracking; the client would otherwise drop the datagrams itself.
    let cancel = json!({"jsonrpc": "2.0", "method": "$/cancel", "params": {"requestId": 5}});
    caller.client.send_untracked(&Encoding::Cbor.encode(&cancel).unwrap()).await.unwrap();
    assert_eq!(caller.reply_to(5).await["error"]["data"]["name"], "CANCELLED");
    // Datagrams sent before the response may still arrive for a moment; then none do.
    caller.settle().await;
    caller.settle().await;
    let after = caller.settle().await;
    assert!(
        !after.iter().any(|event| matches!(event, TransportEvent::Datagram { .. })),
        "{after:?}"
    );
}

/// WT-021, WT-022: invalid datagrams are read, dropped and counted without a report.
#[tokio::test]
async fn invalid_datagrams_are_ignored() {
    let dropped = Dropped::default();
    // The server runs on the thread of this test.
    let _log = tracing_subscriber::registry().with(dropped.clone()).set_default();
    let (running, mut caller) = ready(|_| {}).await;
    let session = caller.client.session().clone();
    let bad = [
        &b""[..],
        b"\x01\x00\0\0\0",
        b"\x00\x00\0\0\0\x01",
        b"\x7f\x00\0\0\0\x01",
        b"\x01\x80\0\0\0\x01",
    ];
    // A valid one is ignored too. It is read before the ones after it.
    for bytes in [&b"\x01\x00\0\0\0\x01{}"[..]].iter().chain(&bad) {
        session.send_datagram(bytes::Bytes::copy_from_slice(bytes)).unwrap();
    }
    let mut told = Vec::new();
    let read = async {
        while dropped.count() < bad.len() {
            told.extend(caller.settle().await);
        }
    };
    within("all datagrams to be read", read).await;
    told.extend(caller.settle().await);
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(dropped.count(), bad.len());
    let counts = running.datagrams.text();
    let line =
        format!("mcp_flow_datagrams_dropped_total{{direction=\"received\"}} {}", bad.len() + 1);
    assert!(counts.lines().any(|counted| counted == line), "{counts}");
}

/// Counts the datagrams that the server logs as dropped.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<S: tracing::Subscriber> Layer<S> for Dropped {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target() == "mcp_flow_webtransport::unsolicited" {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn ready(change: impl FnOnce(&mut ConnectSettings)) -> (Running, Caller) {
    let running = start(&server());
    let mut settings = running.settings();
    change(&mut settings);
    let mut caller = running.connect_with(settings).await;
    caller.initialize(&[Encoding::Cbor]).await;
    (running, caller)
}

fn server() -> Server {
    async fn steps(context: &Context, total: Option<f64>) {
        for step in [1.0, 2.0, 3.0] {
            context.progress(step, total, None);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let tools = [
        Tool::builder("steps").handler(async |context: Context, _: Value| {
            steps(&context, Some(3.0)).await;
        }),
        Tool::builder("steps_without_total").handler(async |context: Context, _: Value| {
            steps(&context, None).await;
        }),
        Tool::builder("chatter").handler(async |context: Context, _: Value| {
            for step in 1..u32::MAX {
                context.progress(step.into(), None, None);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }),
        Tool::builder("log").quick(|context: &Context, _: Value| {
            context.log(LogLevel::Info, None, "all is well");
            context.log(LogLevel::Error, None, "all is lost");
        }),
        Tool::builder("sound").handler(async |context: Context, _: Value| {
            let format = AudioFormat { codec: "audio/L16".into(), sample_rate: 8000, channels: 1 };
            let mut audio = context.audio(&format)?;
            for piece in 0..5 {
                audio.send(Duration::from_millis(20) * piece, &[7; 320]);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Ok::<_, NotSupported>(())
        }),
    ];
    let tools = Vec::from(tools.map(Result::unwrap));
    Fixture::with(|builder| builder.tools(tools)).server
}

fn decode(payload: &[u8], encoding: Encoding) -> Value {
    match encoding {
        Encoding::Json => serde_json::from_slice(payload).unwrap(),
        Encoding::Cbor => Raw::Cbor(payload).decode().unwrap(),
    }
}
