//! Races of which exactly one request may win (INT-101).

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::attack::connection::{TestConnection, Transport, connect};
use crate::attack::report::TableReport;
use crate::attack::target::Target;

/// The transports that reach one server.
const SHARED: [Transport; 8] = [
    Transport::Tcp,
    Transport::Unix,
    Transport::Http,
    Transport::Stateless,
    Transport::Sse,
    Transport::WebSocket,
    Transport::WebTransport,
    Transport::WebTransportCbor,
];

/// Of concurrent answers to one question exactly one is accepted, and of concurrent answers and
/// cancellations exactly one takes effect, over any combination of transports.
#[tokio::test]
async fn exactly_one_of_racing_answers_wins() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    let mut connections = Vec::new();
    for _ in 0..3 {
        for transport in SHARED {
            connections.push(TestConnection::open(&target, transport).await);
        }
    }
    for round in 0..20 {
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 1, "pause": 0}});
        let started = connections[0].call("interaction.start", params).await;
        let id = started.messages[0]["result"]["sessionId"].clone();
        let with_cancels = round % 2 == 1;
        let racing = connections.iter_mut().enumerate().map(|(number, connection)| {
            let respond = json!({"sessionId": id, "response": {"value": format!("{number}")}});
            match with_cancels && number % 2 == 0 {
                true => connection.call("interaction.cancel", json!({"sessionId": id})).boxed(),
                false => connection.call("interaction.respond", respond).boxed(),
            }
        });
        let received = join_all(racing).await;
        let is_winner = |message: &Value| {
            message["result"]["accepted"] == true || message["result"]["cancelled"] == true
        };
        let winners =
            received.iter().filter(|received| received.messages.iter().any(is_winner)).count();
        report.check(
            format!("round {round}"),
            winners == 1,
            format_args!("{winners} have won: {received:?}"),
        );
    }
    report.finish(20);
    drop(connections);
    target.assert_recovered(64).await;
}

/// A cancellation races the reply: every call is answered exactly once, by its result or by an
/// error that it was cancelled.
#[tokio::test]
async fn a_call_ends_once() {
    let target = Target::open("", &[]).await;
    let mut report = TableReport::default();
    for transport in SHARED {
        if matches!(transport, Transport::Http | Transport::Stateless) {
            continue;
        }
        let mut peer = connect(&target, transport, None).await;
        peer.initialize(mcp_flow::Revision::V2025_11_25).await;
        let calls: Vec<_> = (0..50)
            .map(|number| {
                let arguments = json!({"ms": number % 5});
                let id = peer.ask("tools/call", json!({"name": "sleep", "arguments": arguments}));
                for _ in 0..3 {
                    peer.notify("$/cancel", json!({"requestId": id}));
                }
                id
            })
            .collect();
        for id in calls {
            let reply = peer.reply_to(id).await;
            let is_cancelled = reply["error"]["data"]["name"] == "CANCELLED";
            let is_done = reply["result"].is_object();
            report.check(format!("{transport:?} {id}"), is_cancelled || is_done, &reply);
        }
        let more = peer.settle().await;
        report.check(format!("{transport:?} twice"), more.is_empty(), format_args!("{more:?}"));
    }
    report.finish(300);
    target.assert_recovered(64).await;
}
