//! Every request on any lines is answered exactly once, and only messages are sent.

mod expected;

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use mcp_flow_proto::model::LogLevel;
use mcp_flow_proto::{Encoding, Revision};
use mcp_flow_server::{Connection, ConnectionEvent, ConnectionInfo, Context, Limits, Server, Tool};
use serde_json::{Value, json};

use super::take_responses;
use expected::ExpectedResponses;
use mcp_flow_testkit_fixture::memory::encode;

/// Input: a digit, then lines. The digit is a sum: 1 for calls strictly in order, 2 for low limits,
/// 4 for CBOR. At an empty line the server gets some time to work.
pub fn run(data: &[u8]) {
    let Some((&digit, lines)) = data.split_first() else { return };
    let encoding = if digit & 4 == 0 { Encoding::Json } else { Encoding::Cbor };
    let mut info = ConnectionInfo { encoding, ..ConnectionInfo::new("fuzz") };
    info.extensions.insert(Agreed::default());
    // The clock advances only while every task waits, so no run takes longer than it must.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let connection = SERVERS[usize::from(digit & 3)].connect(info.clone()).unwrap();
        let fuzzed =
            FuzzedConnection { connection, info, expected: ExpectedResponses::new(digit & 1 == 1) };
        let ended = tokio::time::timeout(MAX_LENGTH, fuzzed.hold(lines)).await;
        ended.expect("a connection comes to its end");
    });
}

/// Longer than anything may take, by a clock that skips all waiting.
const MAX_LENGTH: Duration = Duration::from_secs(24 * 60 * 60);

/// Revision agreed on in the handshake, which decides whether batches are allowed.
#[derive(Default)]
struct Agreed(Mutex<Option<Revision>>);

/// A connection from its first line to its end.
struct FuzzedConnection {
    connection: Connection,
    info: ConnectionInfo,
    expected: ExpectedResponses,
}

impl FuzzedConnection {
    async fn hold(mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                self.let_work().await;
                continue;
            }
            if !self.until_it_accepts_input().await {
                break;
            }
            let frame = encode(line.to_vec(), self.info.encoding);
            self.expected.expect(&frame, self.info.encoding, self.longest_batch());
            self.connection.receive(&frame);
        }
        self.connection.end_of_input();
        loop {
            self.collect();
            if self.connection.ended().is_some() {
                break;
            }
            self.connection.changed().await;
        }
        self.expected.check();
        self.connection.close().await;
    }

    fn collect(&mut self) {
        self.connection.advance();
        for answer in take_responses(&self.connection, self.info.encoding) {
            self.expected.note(answer.id);
        }
    }

    async fn let_work(&mut self) {
        for _ in 0..4 {
            self.collect();
            tokio::task::yield_now().await;
        }
        self.collect();
    }

    /// Waits until the connection accepts input, like a transport; false at the end of the
    /// connection.
    async fn until_it_accepts_input(&mut self) -> bool {
        while !self.connection.accepts_input() {
            self.collect();
            if self.connection.ended().is_some() || self.connection.accepts_input() {
                break;
            }
            self.connection.changed().await;
        }
        self.connection.ended().is_none()
    }

    /// Limit on the messages of a batch; 0 if batches are not allowed.
    fn longest_batch(&self) -> usize {
        let agreed = self.info.extensions.get::<Agreed>().unwrap();
        let revision = *agreed.0.lock().unwrap();
        let batches = revision.is_some_and(|revision| revision.features().batches);
        if batches { self.connection.limits().batch } else { 0 }
    }
}

/// Servers by the two lower bits of the digit.
static SERVERS: LazyLock<[Server; 4]> = LazyLock::new(|| {
    let usual = Limits::default();
    let tight = Limits {
        concurrency: 2,
        running_bytes: 128,
        parked_bytes: 512,
        parked_calls: 4,
        outbound_bytes: 1024,
        batch: 4,
        client_requests: 1,
        page: 2,
        ..Limits::default()
    };
    let in_order = |limits: &Limits| Limits { concurrency: 1, ..limits.clone() };
    [usual.clone(), in_order(&usual), tight.clone(), in_order(&tight)].map(server)
});

fn server(limits: Limits) -> Server {
    let builder = Server::builder("fuzz", "1.0.0").limits(limits).hook(
        |info: &ConnectionInfo, event: &ConnectionEvent<'_>| {
            if let (ConnectionEvent::Initialize(peer), Some(agreed)) =
                (event, info.extensions.get::<Agreed>())
            {
                *agreed.0.lock().unwrap() = Some(peer.revision);
            }
            Ok(())
        },
    );
    let tools = [
        Tool::builder("echo").quick(|_: &Context, arguments: Value| arguments.to_string()),
        Tool::builder("later").handler(later),
        Tool::builder("never")
            .handler(async |_: Context, _: Value| -> () { std::future::pending().await }),
        Tool::builder("ask").handler(async |context: Context, _: Value| {
            let answer = context.client().request::<Value>("roots/list", &json!({})).await;
            answer.map(|answer| answer.to_string())
        }),
    ];
    let builder = tools.into_iter().fold(builder, |builder, tool| builder.tools(tool.unwrap()));
    builder.build().unwrap()
}

/// Yields several times, and reports each as progress.
async fn later(context: Context, arguments: Value) -> &'static str {
    for turn in 0..arguments["turns"].as_u64().unwrap_or(1).min(8) {
        #[expect(clippy::cast_precision_loss, reason = "there are eight turns at most")]
        context.progress(turn as f64, None, Some("another turn"));
        context.log(LogLevel::Warning, None, "another turn");
        tokio::task::yield_now().await;
    }
    "done"
}
