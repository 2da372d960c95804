//! Replayed request states, session tokens and revoked bearer tokens.

use std::time::Duration;

use mcp_flow::webtransport::client;
use mcp_flow_testkit::http::Request;
use serde_json::{Value, json};

use crate::attack::connection::{TestConnection, Transport, start_session, with_token};
use crate::attack::raw_http::Socket;
use crate::attack::report::TableReport;
use crate::attack::resource_usage::becomes_true_within;
use crate::attack::target::{ADA, BOB, Target};
use crate::attack::webtransport::{settings, url};

/// INT-103, INT-116: the sealed state of a request is valid only unchanged, for its principal, tool
/// and arguments.
#[tokio::test]
async fn a_request_state_is_bound_to_its_call() {
    let target = Target::with_tokens("", &[]).await;
    let mut report = TableReport::default();
    let mut ada = TestConnection::open_as(&target, Transport::Stateless, Some(ADA)).await;
    let mut bob = TestConnection::open_as(&target, Transport::Stateless, Some(BOB)).await;
    let first = ada.call("tools/call", json!({"name": "register", "arguments": {}})).await;
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
    for index in (0..state.len()).step_by(7) {
        let mut changed = state.clone().into_bytes();
        changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        rows.push(("changed", call("register", json!({}), json!(changed))));
        rows.push(("cut off", call("register", json!({}), json!(&state[..index]))));
    }
    for (name, params) in rows {
        let received = ada.call("tools/call", params).await;
        report.compare(name, received.code(), Some(-32602));
    }
    let stolen = bob.call("tools/call", call("register", json!({}), json!(state))).await;
    report.check("Ada's by Bob", stolen.code().is_some(), format_args!("{stolen:?}"));
    let own = ada.call("tools/call", call("register", json!({}), json!(state))).await;
    let asked = &own.messages[0]["result"]["inputRequests"]["email"];
    report.check("Ada's own", asked.is_object(), format_args!("{own:?}"));
    report.finish(50);
    target.assert_recovered(64).await;
}

/// INT-103: a session token is valid once, and only unchanged.
#[tokio::test]
async fn replayed_session_tokens_are_rejected() {
    let target = Target::open("", &["--stateless", "--replay-guard"]).await;
    let mut report = TableReport::default();
    for transport in Transport::ALL {
        // A stdio process is not started with these options.
        if transport == Transport::Stdio {
            continue;
        }
        let mut connection = TestConnection::open(&target, transport).await;
        let params = json!({"toolName": "ledger", "initialParams": {"entries": 3}});
        let started =
            connection.call("interaction.start", params).await.messages[0]["result"].clone();
        let first = started["sessionToken"].as_str().unwrap().to_owned();
        let respond = |token: &str, value: &str| {
            json!({"sessionToken": token, "sessionId": started["sessionId"],
                "response": {"value": value}})
        };
        let next = connection.call("interaction.respond", respond(&first, "one")).await;
        let second = next.messages[0]["result"]["sessionToken"].as_str().unwrap().to_owned();
        for value in ["one", "two", "", "three"] {
            let received = connection.call("interaction.respond", respond(&first, value)).await;
            let row = format!("{transport:?} again {value:?}");
            report.check(row, received.code().is_some(), format_args!("{received:?}"));
        }
        for index in (0..second.len()).step_by(second.len() / 8) {
            let mut changed = second.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            for forged in [changed.as_str(), &second[..index]] {
                let received = connection.call("interaction.respond", respond(forged, "two")).await;
                let row = format!("{transport:?} forged at {index}");
                report.check(row, received.code().is_some(), format_args!("{received:?}"));
            }
        }
        let received = connection.call("interaction.respond", respond(&second, "two")).await;
        let is_accepted = received.messages[0]["result"]["accepted"] == true;
        report.check(
            format!("{transport:?} the newest"),
            is_accepted,
            format_args!("{received:?}"),
        );
    }
    report.finish(150);
    target.assert_recovered(64).await;
}

/// INT-115, C-46: revoking a bearer token closes its connections on every transport and rejects it
/// from then on; those of others stay open.
#[tokio::test]
async fn revoked_tokens_are_rejected() {
    let target = Target::with_tokens("", &[]).await;
    let (address, mut report) = (target.address, TableReport::default());
    let session = start_session(address, Some(BOB)).await;
    let listening = Request::get("/mcp").header("mcp-session-id", &session);
    let mut listening = with_token(Some(BOB), listening).send(address).await;
    let mut events = with_token(Some(BOB), Request::get("/sse")).send(address).await;
    let endpoint = events.event().await.unwrap().data;
    let mut socket = Socket::open_as(&target, Some(BOB)).await;
    let (flow, mut webtransport) =
        client::connect(url(&target), settings(&target, Some(BOB))).await.unwrap();
    flow.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.unwrap();
    let answered = mcp_flow_testkit::wait::within("an answer to a ping", webtransport.next());
    assert!(answered.await.is_some());
    let mut others = Vec::new();
    for transport in Transport::AUTHENTICATED {
        others.push((transport, TestConnection::open_as(&target, transport, Some(ADA)).await));
    }
    target.reload_with_tokens(&["ada"], "");
    let list = || with_token(Some(BOB), Request::new("GET", "/metrics"));
    let is_disconnected = becomes_true_within(Duration::from_secs(20), async || {
        list().send(address).await.status == 401
    });
    report.check("the next request", is_disconnected.await, "it is accepted");
    let ended = async {
        while listening.event().await.is_some() {}
        while events.event().await.is_some() {}
        while webtransport.next().await.is_some() {}
        socket.close_code().await
    };
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    report.compare("streams and connections", ended.ok().flatten(), Some(1008));
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (name, request) in [
        ("its session", Request::post("/mcp", &ping).header("mcp-session-id", &session)),
        ("its stream", Request::post(&endpoint, &ping)),
        ("a new session", crate::attack::connection::initialize()),
        ("a new stream", Request::get("/sse")),
        ("a new socket", crate::attack::raw_http::upgrade()),
        (
            "the end of its session",
            Request::new("DELETE", "/mcp").header("mcp-session-id", &session),
        ),
    ] {
        report.compare(name, with_token(Some(BOB), request).send(address).await.status, 401);
    }
    let again = client::connect(url(&target), settings(&target, Some(BOB))).await;
    report.check("a new session by WebTransport", again.is_err(), "it is accepted");
    for (transport, mut connection) in others {
        let received = connection.call("tools/list", json!({})).await;
        report.check(
            format!("Ada's {transport:?}"),
            received.code().is_none(),
            format_args!("{received:?}"),
        );
    }
    report.finish(15);
    drop((listening, events, socket, flow, webtransport));
    target.assert_recovered(64).await;
}
