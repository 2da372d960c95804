//! Sessions, links and conversations of others (INT-101 to INT-103, INT-116).

use std::collections::HashSet;

use mcp_flow_testkit::http::Request;
use serde_json::{Value, json};

use crate::attack::book::Book;
use crate::attack::target::{ADA, BOB, Target};
use crate::attack::way::{Transport, Way, begin, by, initialize};

/// INT-103, INT-116: whoever knows the id of another's session has nothing; it is as unknown as one
/// that was made up. A client cannot choose the id of its own.
#[tokio::test]
async fn a_stolen_http_session_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let (address, mut book) = (target.address, Book::default());
    let ada = begin(address, Some(ADA)).await;
    let upper = ada.to_uppercase();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let in_session = |id: &str| {
        [
            Request::post("/mcp", &ping).header("mcp-session-id", id),
            Request::get("/mcp").header("mcp-session-id", id),
            Request::get("/mcp").header("mcp-session-id", id).header("last-event-id", "1-1"),
            Request::new("DELETE", "/mcp").header("mcp-session-id", id),
            initialize().header("mcp-session-id", id),
        ]
    };
    for (number, request) in in_session(&ada).into_iter().enumerate() {
        let status = by(Some(BOB), request.clone()).send(address).await.status;
        book.note(format!("Ada's session by Bob, {number}"), status, 404);
        book.note(
            format!("Ada's session by nobody, {number}"),
            request.send(address).await.status,
            401,
        );
    }
    for id in MADE_UP.iter().copied().chain([&ada[1..], &upper, &*format!("{ada}0")]) {
        for (number, request) in in_session(id).into_iter().enumerate() {
            // Capitals may be what it has already.
            if id != ada {
                let status = by(Some(ADA), request).send(address).await.status;
                book.note(format!("{id:?} by Ada, {number}"), status, 404);
            }
        }
    }
    let still = Request::post("/mcp", &ping).header("mcp-session-id", &ada);
    book.note("Ada's own", by(Some(ADA), still).send(address).await.status, 200);

    let mut stream = by(Some(ADA), Request::get("/sse?sessionId=chosen")).send(address).await;
    let endpoint = stream.event().await.unwrap().data;
    book.check("an id that was chosen", !endpoint.contains("chosen"), &endpoint);
    for (who, token, status) in
        [("Bob", Some(BOB), 404), ("nobody", None, 401), ("Ada", Some(ADA), 202)]
    {
        let post = by(token, Request::post(&endpoint, &ping)).send(address).await.status;
        book.note(format!("Ada's stream by {who}"), post, status);
    }
    for id in MADE_UP {
        let path = format!("/messages?sessionId={}", id.replace([' ', '\''], "%20"));
        let status = by(Some(ADA), Request::post(&path, &ping)).send(address).await.status;
        book.note(format!("stream {id:?}"), status, if id.is_empty() { 400 } else { 404 });
    }
    drop(stream);
    book.close(80);
    target.unharmed(64).await;
}

/// INT-101, INT-103, INT-116: conversations belong to whoever began them, over every transport, and
/// to others they do not exist.
#[tokio::test]
async fn a_stolen_flow_session_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let mut book = Book::default();
    for transport in Transport::ASKING {
        let mut ada = Way::open_as(&target, transport, Some(ADA)).await;
        let mut bob = Way::open_as(&target, transport, Some(BOB)).await;
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 2}});
        let started = ada.ask("interaction.start", params).await;
        let id = started.messages[0]["result"]["sessionId"].as_str().unwrap().to_owned();
        let stolen = [id.clone()].into_iter().chain(MADE_UP.iter().map(|id| (*id).to_owned()));
        let near = [format!("{id} "), format!("{id}0"), id[..id.len() - 1].to_owned()];
        for stolen in stolen.chain(near) {
            for method in METHODS {
                let heard = bob.ask(method, with_session(method, &stolen)).await;
                let is_unknown =
                    heard.name() == Some("SESSION_NOT_FOUND") || heard.code() == Some(-32602);
                let row = format!("{transport:?} {method} {stolen:?}");
                book.check(&row, is_unknown, format_args!("{heard:?}"));
                let is_same = stolen != id || heard.name() == Some("SESSION_NOT_FOUND");
                book.check(
                    &row,
                    is_same,
                    format_args!("it can be told from one that is not there"),
                );
            }
        }
        let listed = bob.ask("interaction.list", json!({})).await;
        book.check(
            format!("{transport:?} list"),
            !format!("{listed:?}").contains(&id),
            "it is listed",
        );
        let mine = ada.ask("interaction.respond", with_session("interaction.respond", &id)).await;
        let accepted = &mine.messages.last().unwrap()["result"]["accepted"];
        book.check(format!("{transport:?} Ada's own"), *accepted == true, format_args!("{mine:?}"));
    }
    book.close(400);
    target.unharmed(64).await;
}

/// INT-103: a link to a download is good for whom it was made for.
#[tokio::test]
async fn a_stolen_link_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let mut book = Book::default();
    let uri = format!("file://{}/large.bin", target.root().display());
    let transports = [Transport::Http, Transport::Alone, Transport::Sse, Transport::WebSocket];
    for transport in transports {
        let mut ada = Way::open_as(&target, transport, Some(ADA)).await;
        let read = ada.ask("resources/read", json!({"uri": uri})).await;
        let download = &read.messages[0]["result"]["contents"][0]["_meta"]["mcp-flow/download"];
        let url = download["url"].as_str().unwrap_or_else(|| panic!("{read:?}"));
        let path = &url[url.find("/download/").unwrap()..];
        for (who, token, status) in
            [("Bob", Some(BOB), 404), ("nobody", None, 401), ("Ada", Some(ADA), 200)]
        {
            for method in ["HEAD", "GET"] {
                let answer = by(token, Request::new(method, path)).send(target.address).await;
                book.note(format!("{transport:?} {method} by {who}"), answer.status, status);
            }
        }
        let longer = by(Some(ADA), Request::new("GET", &format!("{path}0")));
        let status = longer.send(target.address).await.status;
        book.note(format!("{transport:?} a longer link"), status, 404);
    }
    book.close(28);
    // What can still be fetched is held open.
    target.unharmed_but_for(transports.len(), 64).await;
}

/// INT-102: no id is given twice, and none says anything about the next.
#[tokio::test]
async fn ids_cannot_be_guessed() {
    let target = Target::open("", &[]).await;
    let (mut seen, mut starts) = (HashSet::new(), HashSet::new());
    for _ in 0..300 {
        let id = begin(target.address, None).await;
        assert!(id.len() >= 32, "{id}");
        starts.insert(id[..8].to_owned());
        assert!(seen.insert(id), "it was there before");
    }
    assert!(starts.len() >= 299, "they begin alike");
    target.unharmed(64).await;
}

fn with_session(method: &str, id: &str) -> Value {
    match method {
        "interaction.respond" => json!({"sessionId": id, "response": {"value": "x"}}),
        _ => json!({"sessionId": id}),
    }
}

const METHODS: [&str; 5] = [
    "interaction.getState",
    "interaction.respond",
    "interaction.continue",
    "interaction.complete",
    "interaction.cancel",
];

const MADE_UP: &[&str] = &[
    "",
    "x",
    "0",
    "null",
    "session_",
    "session_00000000000000000000000000000000",
    "00000000000000000000000000000000",
    "../../etc/passwd",
    "' OR 1=1 --",
];
