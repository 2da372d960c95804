//! Many at once, of which one may win (INT-101).

use futures_util::FutureExt;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::attack::book::Book;
use crate::attack::target::Target;
use crate::attack::way::{Transport, Way, connect};

/// Those that reach one server.
const SHARED: [Transport; 8] = [
    Transport::Tcp,
    Transport::Unix,
    Transport::Http,
    Transport::Alone,
    Transport::Sse,
    Transport::WebSocket,
    Transport::Flow,
    Transport::FlowCbor,
];

/// Of many answers to one question exactly one is taken, and of answers and cancels exactly one acts,
/// whichever transports they come by.
#[tokio::test]
async fn exactly_one_of_racing_answers_wins() {
    let target = Target::open("", &[]).await;
    let mut book = Book::default();
    let mut ways = Vec::new();
    for _ in 0..3 {
        for transport in SHARED {
            ways.push(Way::open(&target, transport).await);
        }
    }
    for round in 0..20 {
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 1, "pause": 0}});
        let started = ways[0].ask("interaction.start", params).await;
        let id = started.messages[0]["result"]["sessionId"].clone();
        let with_cancels = round % 2 == 1;
        let racing = ways.iter_mut().enumerate().map(|(number, way)| {
            let respond = json!({"sessionId": id, "response": {"value": format!("{number}")}});
            match with_cancels && number % 2 == 0 {
                true => way.ask("interaction.cancel", json!({"sessionId": id})).boxed(),
                false => way.ask("interaction.respond", respond).boxed(),
            }
        });
        let heard = join_all(racing).await;
        let is_winner = |message: &Value| {
            message["result"]["accepted"] == true || message["result"]["cancelled"] == true
        };
        let winners = heard.iter().filter(|heard| heard.messages.iter().any(is_winner)).count();
        book.check(
            format!("round {round}"),
            winners == 1,
            format_args!("{winners} have won: {heard:?}"),
        );
    }
    book.close(20);
    drop(ways);
    target.unharmed(64).await;
}

/// A cancel that races the reply: every call is answered exactly once, by its result or by the word
/// that it was cancelled.
#[tokio::test]
async fn a_call_ends_once() {
    let target = Target::open("", &[]).await;
    let mut book = Book::default();
    for transport in SHARED {
        if matches!(transport, Transport::Http | Transport::Alone) {
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
            book.check(format!("{transport:?} {id}"), is_cancelled || is_done, &reply);
        }
        let more = peer.settle().await;
        book.check(format!("{transport:?} twice"), more.is_empty(), format_args!("{more:?}"));
    }
    book.close(300);
    target.unharmed(64).await;
}
