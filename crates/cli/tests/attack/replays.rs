//! What was good once: states, tokens of conversations, tokens that were taken back.

use std::time::Duration;

use mcp_flow::webtransport::client;
use mcp_flow_testkit::http::Request;
use serde_json::{Value, json};

use crate::attack::book::Book;
use crate::attack::health::within;
use crate::attack::raw::Socket;
use crate::attack::target::{ADA, BOB, Target};
use crate::attack::way::{Transport, Way, begin, by};
use crate::attack::webtransport::{settings, url};

/// INT-103, INT-116: the sealed state of a request is good for its principal, its tool and its
/// arguments, as it was given out and not otherwise.
#[tokio::test]
async fn a_request_state_is_bound_to_its_call() {
    let target = Target::with_tokens("", &[]).await;
    let mut book = Book::default();
    let mut ada = Way::open_as(&target, Transport::Alone, Some(ADA)).await;
    let mut bob = Way::open_as(&target, Transport::Alone, Some(BOB)).await;
    let first = ada.ask("tools/call", json!({"name": "register", "arguments": {}})).await;
    let state = first.messages[0]["result"]["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"name": {"action": "accept", "content": {"name": "Eve"}}});
    let call = |tool: &str, arguments: Value, state: Value| {
        json!({"name": tool, "arguments": arguments, "requestState": state,
            "inputResponses": answers})
    };
    let mut rows = vec![
        ("another tool", call("book_trip", json!({}), json!(state))),
        ("a tool that asks nothing", call("ledger", json!({"entries": 1}), json!(state))),
        ("other arguments", call("register", json!({"name": "Eve"}), json!(state))),
        ("doubled", call("register", json!({}), json!(format!("{state}{state}")))),
        ("empty", call("register", json!({}), json!(""))),
        ("a number", call("register", json!({}), json!(7))),
        ("an array", call("register", json!({}), json!([state]))),
        ("an object", call("register", json!({}), json!({}))),
        ("made up", call("register", json!({}), json!("x".repeat(200)))),
    ];
    for place in (0..state.len()).step_by(7) {
        let mut changed = state.clone().into_bytes();
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        rows.push(("changed", call("register", json!({}), json!(changed))));
        rows.push(("cut off", call("register", json!({}), json!(&state[..place]))));
    }
    for (name, params) in rows {
        let heard = ada.ask("tools/call", params).await;
        book.note(name, heard.code(), Some(-32602));
    }
    let stolen = bob.ask("tools/call", call("register", json!({}), json!(state))).await;
    book.check("Ada's by Bob", stolen.code().is_some(), format_args!("{stolen:?}"));
    let own = ada.ask("tools/call", call("register", json!({}), json!(state))).await;
    let asked = &own.messages[0]["result"]["inputRequests"]["email"];
    book.check("Ada's own", asked.is_object(), format_args!("{own:?}"));
    book.close(50);
    target.unharmed(64).await;
}

/// INT-103: the token of a conversation that clients carry is good once, as it was given out.
#[tokio::test]
async fn replayed_session_tokens_are_rejected() {
    let target = Target::open("", &["--stateless", "--replay-guard"]).await;
    let mut book = Book::default();
    for transport in Transport::EVERY {
        // A process of its own is not started so.
        if transport == Transport::Stdio {
            continue;
        }
        let mut way = Way::open(&target, transport).await;
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 3}});
        let started = way.ask("interaction.start", params).await.messages[0]["result"].clone();
        let first = started["sessionToken"].as_str().unwrap().to_owned();
        let respond = |token: &str, value: &str| {
            json!({"sessionToken": token, "sessionId": started["sessionId"],
                "response": {"value": value}})
        };
        let next = way.ask("interaction.respond", respond(&first, "one")).await;
        let second = next.messages[0]["result"]["sessionToken"].as_str().unwrap().to_owned();
        for value in ["one", "two", "", "three"] {
            let heard = way.ask("interaction.respond", respond(&first, value)).await;
            let row = format!("{transport:?} again {value:?}");
            book.check(row, heard.code().is_some(), format_args!("{heard:?}"));
        }
        for place in (0..second.len()).step_by(second.len() / 8) {
            let mut changed = second.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            for forged in [changed.as_str(), &second[..place]] {
                let heard = way.ask("interaction.respond", respond(forged, "two")).await;
                let row = format!("{transport:?} forged at {place}");
                book.check(row, heard.code().is_some(), format_args!("{heard:?}"));
            }
        }
        let heard = way.ask("interaction.respond", respond(&second, "two")).await;
        let is_accepted = heard.messages[0]["result"]["accepted"] == true;
        book.check(format!("{transport:?} the newest"), is_accepted, format_args!("{heard:?}"));
    }
    book.close(150);
    target.unharmed(64).await;
}

/// INT-115, C-46: when a token is taken back, what it had opened is closed on every transport, and
/// it opens nothing any more; those of others go on.
#[tokio::test]
async fn revoked_tokens_are_rejected() {
    let target = Target::with_tokens("", &[]).await;
    let (address, mut book) = (target.address, Book::default());
    let session = begin(address, Some(BOB)).await;
    let listening = Request::get("/mcp").header("mcp-session-id", &session);
    let mut listening = by(Some(BOB), listening).send(address).await;
    let mut events = by(Some(BOB), Request::get("/sse")).send(address).await;
    let endpoint = events.event().await.unwrap().data;
    let mut socket = Socket::open_as(&target, Some(BOB)).await;
    let (flow, mut flowing) =
        client::connect(url(&target), settings(&target, Some(BOB))).await.unwrap();
    flow.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.unwrap();
    let answered = mcp_flow_testkit::wait::within("an answer to a ping", flowing.next());
    assert!(answered.await.is_some());
    let mut others = Vec::new();
    for transport in Transport::ASKING {
        others.push((transport, Way::open_as(&target, transport, Some(ADA)).await));
    }
    target.let_in_only(&["ada"], "");
    let list = || by(Some(BOB), Request::new("GET", "/metrics"));
    let is_out = within(Duration::from_secs(20), async || list().send(address).await.status == 401);
    book.check("the next request", is_out.await, "it is let in");
    let ended = async {
        while listening.event().await.is_some() {}
        while events.event().await.is_some() {}
        while flowing.next().await.is_some() {}
        socket.goodbye().await
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    book.note("streams and connections", ended.ok().flatten(), Some(1008));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (name, request) in [
        ("its session", Request::post("/mcp", &ping).header("mcp-session-id", &session)),
        ("its stream", Request::post(&endpoint, &ping)),
        ("a new session", crate::attack::way::initialize()),
        ("a new stream", Request::get("/sse")),
        ("a new socket", crate::attack::raw::upgrade()),
        (
            "the end of its session",
            Request::new("DELETE", "/mcp").header("mcp-session-id", &session),
        ),
    ] {
        book.note(name, by(Some(BOB), request).send(address).await.status, 401);
    }
    let again = client::connect(url(&target), settings(&target, Some(BOB))).await;
    book.check("a new session by WebTransport", again.is_err(), "it is let in");
    for (transport, mut way) in others {
        let heard = way.ask("tools/list", json!({})).await;
        book.check(
            format!("Ada's {transport:?}"),
            heard.code().is_none(),
            format_args!("{heard:?}"),
        );
    }
    book.close(15);
    drop((listening, events, socket, flow, flowing));
    target.unharmed(64).await;
}
