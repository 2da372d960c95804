//! Stolen and guessed ids of HTTP sessions, flow sessions and links (INT-101 to INT-103, INT-116).

use std::collections::HashSet;

use mcp_flow_testkit::http::Request;
use serde_json::{Value, json};

use crate::attack::connection::{TestConnection, Transport, initialize, start_session, with_token};
use crate::attack::report::TableReport;
use crate::attack::target::{ADA, BOB, Target};

/// INT-103, INT-116: the id of another principal's HTTP session is as unknown as an invented one. A
/// client cannot choose the id of its own.
#[tokio::test]
async fn a_stolen_http_session_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let (address, mut report) = (target.address, TableReport::default());
    let ada = start_session(address, Some(ADA)).await;
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
        let status = with_token(Some(BOB), request.clone()).send(address).await.status;
        report.compare(format!("Ada's session by Bob, {number}"), status, 404);
        report.compare(
            format!("Ada's session by an anonymous client, {number}"),
            request.send(address).await.status,
            401,
        );
    }
    for id in MADE_UP.iter().copied().chain([&ada[1..], &upper, &*format!("{ada}0")]) {
        for (number, request) in in_session(id).into_iter().enumerate() {
            // The id may consist of digits only, and then capitals do not change it.
            if id != ada {
                let status = with_token(Some(ADA), request).send(address).await.status;
                report.compare(format!("{id:?} by Ada, {number}"), status, 404);
            }
        }
    }
    let still = Request::post("/mcp", &ping).header("mcp-session-id", &ada);
    report.compare("Ada's own", with_token(Some(ADA), still).send(address).await.status, 200);

    let mut stream =
        with_token(Some(ADA), Request::get("/sse?sessionId=chosen")).send(address).await;
    let endpoint = stream.event().await.unwrap().data;
    report.check("an id that was chosen", !endpoint.contains("chosen"), &endpoint);
    for (who, token, status) in
        [("Bob", Some(BOB), 404), ("an anonymous client", None, 401), ("Ada", Some(ADA), 202)]
    {
        let post = with_token(token, Request::post(&endpoint, &ping)).send(address).await.status;
        report.compare(format!("Ada's stream by {who}"), post, status);
    }
    for id in MADE_UP {
        let path = format!("/messages?sessionId={}", id.replace([' ', '\''], "%20"));
        let status = with_token(Some(ADA), Request::post(&path, &ping)).send(address).await.status;
        report.compare(format!("stream {id:?}"), status, if id.is_empty() { 400 } else { 404 });
    }
    drop(stream);
    report.finish(80);
    target.assert_recovered(64).await;
}

/// INT-101, INT-103, INT-116: a flow session belongs to the principal that started it, over every
/// transport, and does not exist for others.
#[tokio::test]
async fn a_stolen_flow_session_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let mut report = TableReport::default();
    for transport in Transport::AUTHENTICATED {
        let mut ada = TestConnection::open_as(&target, transport, Some(ADA)).await;
        let mut bob = TestConnection::open_as(&target, transport, Some(BOB)).await;
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 2}});
        let started = ada.call("interaction.start", params).await;
        let id = started.messages[0]["result"]["sessionId"].as_str().unwrap().to_owned();
        let stolen = [id.clone()].into_iter().chain(MADE_UP.iter().map(|id| (*id).to_owned()));
        let near = [format!("{id} "), format!("{id}0"), id[..id.len() - 1].to_owned()];
        for stolen in stolen.chain(near) {
            for method in METHODS {
                let received = bob.call(method, with_session(method, &stolen)).await;
                let is_unknown =
                    received.name() == Some("SESSION_NOT_FOUND") || received.code() == Some(-32602);
                let row = format!("{transport:?} {method} {stolen:?}");
                report.check(&row, is_unknown, format_args!("{received:?}"));
                let is_same = stolen != id || received.name() == Some("SESSION_NOT_FOUND");
                report.check(
                    &row,
                    is_same,
                    format_args!("it can be distinguished from a missing one"),
                );
            }
        }
        let listed = bob.call("interaction.list", json!({})).await;
        report.check(
            format!("{transport:?} list"),
            !format!("{listed:?}").contains(&id),
            "it is listed",
        );
        let mine = ada.call("interaction.respond", with_session("interaction.respond", &id)).await;
        let accepted = &mine.messages.last().unwrap()["result"]["accepted"];
        report.check(
            format!("{transport:?} Ada's own"),
            *accepted == true,
            format_args!("{mine:?}"),
        );
    }
    report.finish(400);
    target.assert_recovered(64).await;
}

/// INT-103: a download link is valid only for the principal it was created for.
#[tokio::test]
async fn a_stolen_link_is_unknown() {
    let target = Target::with_tokens("", &[]).await;
    let mut report = TableReport::default();
    let uri = format!("file://{}/large.bin", target.root().display());
    let transports = [Transport::Http, Transport::Stateless, Transport::Sse, Transport::WebSocket];
    for transport in transports {
        let mut ada = TestConnection::open_as(&target, transport, Some(ADA)).await;
        let read = ada.call("resources/read", json!({"uri": uri})).await;
        let download = &read.messages[0]["result"]["contents"][0]["_meta"]["mcp-flow/download"];
        let url = download["url"].as_str().unwrap_or_else(|| panic!("{read:?}"));
        let path = &url[url.find("/download/").unwrap()..];
        for (who, token, status) in
            [("Bob", Some(BOB), 404), ("an anonymous client", None, 401), ("Ada", Some(ADA), 200)]
        {
            for method in ["HEAD", "GET"] {
                let answer =
                    with_token(token, Request::new(method, path)).send(target.address).await;
                report.compare(format!("{transport:?} {method} by {who}"), answer.status, status);
            }
        }
        let longer = with_token(Some(ADA), Request::new("GET", &format!("{path}0")));
        let status = longer.send(target.address).await.status;
        report.compare(format!("{transport:?} a longer link"), status, 404);
    }
    report.finish(28);
    // A file that can still be downloaded stays open.
    target.assert_recovered_except(transports.len(), 64).await;
}

/// INT-102: ids are unique, and none reveals the next.
#[tokio::test]
async fn ids_cannot_be_guessed() {
    let target = Target::open("", &[]).await;
    let (mut seen, mut starts) = (HashSet::new(), HashSet::new());
    for _ in 0..300 {
        let id = start_session(target.address, None).await;
        assert!(id.len() >= 32, "{id}");
        starts.insert(id[..8].to_owned());
        assert!(seen.insert(id), "it was there before");
    }
    assert!(starts.len() >= 299, "they begin alike");
    target.assert_recovered(64).await;
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
