//! Sessions over the protocol: ownership, expiry, limits and client-held sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_flow_engine::{Clock, SessionLimits};
use mcp_flow_proto::Revision;
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_server::{ConnectionInfo, Detail, Observed, Observer, Principal};
use mcp_flow_session::Timestamp;
use mcp_flow_session::store::{MemoryGuard, ReplayGuard};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Value, json};

/// INT-103, INT-116, C-53: sessions of other owners are not found, by token or id.
#[tokio::test]
async fn sessions_of_other_owners_are_not_found() {
    for revision in Revision::handshake() {
        check_not_found(revision).await;
    }
}

async fn check_not_found(revision: Revision) {
    let fixture = Fixture::interactive();
    let mut ada = connect_by(&fixture, "ada", revision).await;
    let mut eve = connect_by(&fixture, "eve", revision).await;
    let id = start(&mut ada, "simple").await["sessionId"].clone();
    for method in ["respond", "continue", "complete", "cancel", "rewind", "getState"] {
        let params = json!({"sessionId": id, "response": {"value": "Eve"}, "to": "name"});
        let stolen = eve.call(&format!("interaction.{method}"), params).await;
        let unknown = "session_00000000000000000000000000000000";
        let params = json!({"sessionId": unknown, "response": {"value": "Eve"}, "to": "name"});
        let guessed = eve.call(&format!("interaction.{method}"), params).await;
        let plain = |reply: &Value, name: &str| {
            let mut error = reply["error"].clone();
            assert_eq!(error["data"]["sessionId"], name);
            error["data"]["sessionId"] = Value::Null;
            error["message"] = error["message"].as_str().unwrap().replace(name, "").into();
            error
        };
        assert_eq!(plain(&stolen, id.as_str().unwrap()), plain(&guessed, unknown));
    }
    let listed = eve.call("interaction.list", json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
    assert_eq!(state(&mut ada, &id).await["state"], "waiting_user");
}

/// INT-041, INT-068, INT-078, INT-106: of concurrent answers one is accepted, and a concurrent
/// cancel ends the session without further messages.
#[tokio::test]
async fn concurrent_answers_and_cancels_are_consistent() {
    for _ in 0..50 {
        let fixture = Fixture::interactive();
        let mut peer = connect(&fixture, "ada").await;
        let id = start(&mut peer, "simple").await["sessionId"].clone();
        let mut asked = Vec::new();
        for number in 0..8 {
            let answer = json!({"sessionId": id, "response": {"value": format!("Ada {number}")}});
            asked.push(peer.ask("interaction.respond", answer));
        }
        asked.push(peer.ask("interaction.cancel", json!({"sessionId": id})));
        let mut accepted = 0;
        for id in asked {
            let reply = peer.reply_to(id).await;
            let code = reply["error"]["code"].as_i64();
            accepted += u32::from(reply["result"]["accepted"] == true);
            assert!(matches!(code, None | Some(-32003 | -32006)), "{reply}");
        }
        let left = state(&mut peer, &id).await;
        let ending = if accepted == 1 { "completed" } else { "cancelled" };
        assert_eq!((accepted <= 1, &left["state"]), (true, &json!(ending)), "{left}");
    }
}

/// An earlier answer is changed: the question is asked again, under another turn.
#[tokio::test]
async fn an_earlier_answer_is_changed() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture, "ada").await;
    let id = start(&mut peer, "wizard").await["sessionId"].clone();
    let first = state(&mut peer, &id).await["currentPrompt"].clone();
    let key = first["metadata"]["key"].as_str().unwrap().to_owned();
    let rewind = json!({"sessionId": id, "to": key});
    let refused = peer.call("interaction.rewind", rewind.clone()).await["error"].clone();
    assert_eq!(
        (&refused["code"], &refused["data"]["reason"]),
        (&json!(-32004), &json!("unanswered"))
    );
    let missing = peer.call("interaction.rewind", json!({"sessionId": id})).await["error"].clone();
    assert_eq!(missing["data"]["field"], "to");
    let answer = json!({"sessionId": id, "response": {"value": "Ada Lovelace", "turnId": 0}});
    let accepted = peer.call("interaction.respond", answer).await["result"].clone();
    assert_eq!(accepted["accepted"], true);
    let rewound = peer.call("interaction.rewind", rewind).await["result"].clone();
    assert_eq!(rewound["rewound"], true, "{rewound}");
    let again = state(&mut peer, &id).await;
    assert_eq!(
        (&again["currentPrompt"]["message"], &again["history"]),
        (&first["message"], &json!([]))
    );
    assert_eq!(again["currentPrompt"]["metadata"]["turnId"], 2);
}

/// C-12: a start that is cancelled before its reply leaves no session.
#[tokio::test]
async fn a_cancelled_start_leaves_nothing_running() {
    // The reply must not come before the cancel.
    let timeout = Duration::from_secs(600);
    let fixture = Fixture::interactive_with(|flows| flows.response_timeouts(timeout, timeout));
    let mut peer = connect(&fixture, "ada").await;
    let id = peer.ask("interaction.start", json!({"toolName": "thinks"}));
    fixture.gate.until_waiting(1).await;
    let params = json!({"requestId": id, "reason": "never mind"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    let cancelled = async {
        loop {
            let listed = peer.call("interaction.list", json!({})).await;
            if listed["result"]["sessions"][0]["state"] == "cancelled" {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
    within("the session to be cancelled", cancelled).await;
}

/// INT-104 to INT-106: hostile params of a start are rejected, and do not affect others.
#[tokio::test]
async fn hostile_starts_are_rejected() {
    let fixture = Fixture::interactive();
    let mut peer = connect(&fixture, "ada").await;
    let mut nested = json!(1);
    for _ in 0..100 {
        nested = json!({"x": nested});
    }
    let large = "x".repeat(1024 * 1024);
    for (params, code) in [
        (json!({"toolName": "wizard", "initialParams": {"name": large}}), -32000),
        (json!({"toolName": "wizard", "context": {"name": large}}), -32000),
        (json!({"toolName": "wizard", "initialParams": {"name": "a\u{0}b"}}), -32004),
        (json!({"toolName": "wizard", "initialParams": {"name": nested}}), -32004),
        (json!({"toolName": large}), -32602),
        (json!({"toolName": "wi\u{0}zard"}), -32602),
    ] {
        let reply = peer.call("interaction.start", params).await;
        assert_eq!(reply["error"]["code"], code, "{reply}");
        assert!(reply.to_string().len() < 2_000, "what is large is not sent back");
    }
    let listed = peer.call("interaction.list", json!({})).await;
    assert_eq!(listed["result"]["sessions"], json!([]));
}

/// INT-022, INT-071 to INT-073, INT-080, C-55: the client is warned before a session expires, and
/// notified when it has.
#[tokio::test]
async fn a_session_expires_after_a_warning() {
    let clock = Arc::new(ManualClock::default());
    let hand = clock.clone();
    let fixture = Fixture::interactive_with(move |flows| flows.engine(|engine| engine.clock(hand)));
    let mut peer = connect(&fixture, "ada").await;
    let params = json!({"toolName": "simple", "timeout": 1000});
    let started = peer.call("interaction.start", params).await;
    let id = started["result"]["sessionId"].clone();
    clock.0.store(900, Ordering::Relaxed);
    let warning = peer.find(|message| message["method"] == "interaction.timeoutWarning").await;
    let told = json!({"sessionId": id, "expiresAt": 1000, "remainingMs": 100});
    assert_eq!(warning["params"], told);
    clock.0.store(1001, Ordering::Relaxed);
    let expired = peer.find(|message| message["method"] == "interaction.expired").await;
    let told = json!({"sessionId": id, "expiredAt": 1000, "limit": "inactivity"});
    assert_eq!((&expired["params"], expired.get("id")), (&told, None));
    // It counts as expired before maintenance has run.
    assert_eq!(state(&mut peer, &id).await["state"], "error");
    let late = respond(&mut peer, json!({"sessionId": id}), "Ada").await;
    assert_eq!(
        (&late["error"]["code"], &late["error"]["data"]["limit"]),
        (&json!(-32002), &json!("inactivity"))
    );
    let polled = peer.call("interaction.continue", json!({"sessionId": id})).await;
    assert_eq!(polled["error"]["code"], -32002, "{polled}");
    let left = state(&mut peer, &id).await;
    assert_eq!((&left["state"], &left["history"]), (&json!("error"), &json!([])));
    assert_eq!(left["metadata"]["lastActivityAt"], 0, "to expire is no activity");
}

/// INT-107, INT-108: errors about limits say what to do.
#[tokio::test]
async fn limits_are_explained() {
    let rate = mcp_flow_engine::Rate { burst: 1, per_second: 0.001 };
    let limits =
        SessionLimits { sessions_per_owner: 2, rate: Some(rate), ..SessionLimits::default() };
    let fixture = Fixture::interactive_with(|flows| flows.limits(limits));
    let mut peer = connect(&fixture, "ada").await;
    let first = start(&mut peer, "simple").await["sessionId"].clone();
    start(&mut peer, "simple").await;
    let third = peer.call("interaction.start", json!({"toolName": "simple"})).await;
    assert_eq!(
        (&third["error"]["code"], &third["error"]["data"]["limit"]),
        (&json!(-32000), &json!(2))
    );
    respond(&mut peer, json!({"sessionId": first}), "x").await;
    let often = respond(&mut peer, json!({"sessionId": first}), "x").await;
    assert_eq!(often["error"]["data"]["name"], "RATE_LIMITED", "{often}");
    assert!(often["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    peer.call("interaction.cancel", json!({"sessionId": first})).await;
    start(&mut peer, "simple").await;
}

/// INT-003, INT-094, INT-128 to INT-133, C-43: a token contains the session, is bound to its owner
/// and cannot be modified; with a guard, only the newest one is accepted.
#[tokio::test]
async fn a_client_holds_its_session() {
    for guarded in [false, true] {
        let server = || {
            let guard = guarded.then(guard);
            Fixture::interactive_with(|flows| flows.client_held(keys(), guard))
        };
        let fixture = server();
        let mut peer = connect(&fixture, "ada").await;
        let declared = peer.call("capabilities", json!({})).await["result"]["features"].clone();
        assert_eq!(
            (&declared["statefulSessions"], &declared["sessionPersistence"]),
            (&json!(false), &json!(true))
        );
        let started = start(&mut peer, "wizard").await;
        assert_eq!(started["initialPrompt"]["message"], "Enter name");
        let (id, first) = (started["sessionId"].clone(), started["sessionToken"].clone());
        let answered = respond(&mut peer, json!({"sessionToken": first}), "Ada").await;
        assert_eq!(answered["result"]["next"]["prompt"]["message"], "Enter email");
        let second = answered["result"]["sessionToken"].clone();
        let by_id = respond(&mut peer, json!({"sessionId": id}), "a@b").await;
        assert_eq!(by_id["error"]["code"], -32001);
        let old = respond(&mut peer, json!({"sessionToken": first}), "Eve").await;
        assert_eq!(old.get("error").is_some(), guarded, "{old}");
        if guarded {
            let data = &old["error"]["data"];
            let from_to = (&data["reason"], &data["from"], &data["to"]);
            assert_eq!(from_to, (&json!("replayed"), &json!("waiting_user"), &json!("processing")));
            let old = speak(&mut peer, "cancel", &first).await;
            assert_eq!(old["error"]["data"]["to"], "cancelled", "{old}");
        }
        // With a guard, an outdated token does not show a past state.
        let stale = peer.call("interaction.getState", json!({"sessionToken": first})).await;
        let code = guarded.then_some(-32003);
        assert_eq!(stale["error"]["code"].as_i64(), code, "{stale}");
        let text = second.as_str().unwrap();
        for place in [0, 40, text.len() / 2, text.len() - 10] {
            let other = if &text[place..=place] == "B" { "C" } else { "B" };
            let forged = format!("{}{other}{}", &text[..place], &text[place + 1..]);
            let reply = respond(&mut peer, json!({"sessionToken": forged}), "a@b").await;
            assert_eq!(reply["error"]["code"], -32004, "{reply}");
            // The session of an invalid token is unknown.
            assert_eq!(reply["error"]["data"].get("sessionId"), None, "{reply}");
        }
        let truncated = respond(&mut peer, json!({"sessionToken": &text[..text.len() - 8]}), "a@b");
        assert_eq!(truncated.await["error"]["code"], -32004);
        let mut eve = connect(&fixture, "eve").await;
        let stolen = respond(&mut eve, json!({"sessionToken": second}), "a@b").await;
        assert_eq!(stolen["error"]["code"], -32001, "{stolen}");
        // Another process that has only the keys.
        let mut other = connect(&server(), "ada").await;
        let told = other.call("interaction.getState", json!({"sessionId": second})).await;
        assert_eq!(told["result"]["accumulatedData"], json!({"name": "Ada"}));
        let done = respond(&mut other, json!({"sessionId": second}), "a@b").await;
        let complete = &done["result"]["next"]["complete"];
        assert_eq!(complete["result"]["data"], json!({"name": "Ada", "email": "a@b"}));
        let cancelled = other.call("interaction.cancel", json!({"sessionToken": second})).await;
        assert_eq!(cancelled.get("error").is_some(), guarded, "{cancelled}");
    }
}

/// INT-103, INT-133, C-43: a token is rejected for another session.
#[tokio::test]
async fn a_token_is_rejected_for_another_session() {
    let fixture = Fixture::interactive_with(|flows| flows.client_held(keys(), None));
    let mut peer = connect(&fixture, "ada").await;
    let (one, other) = (start(&mut peer, "wizard").await, start(&mut peer, "wizard").await);
    for method in ["respond", "continue", "complete", "cancel", "getState"] {
        let params = json!({"sessionId": other["sessionId"], "sessionToken": one["sessionToken"],
            "response": {"value": "Ada"}});
        let refused = peer.call(&format!("interaction.{method}"), params).await["error"].clone();
        assert_eq!(refused["code"], -32004, "{method}: {refused}");
        assert_eq!(refused["data"]["field"], "sessionToken", "{method}: {refused}");
        assert_eq!(refused["data"]["sessionId"], other["sessionId"], "{method}: {refused}");
    }
    let both = json!({"sessionId": one["sessionId"], "sessionToken": one["sessionToken"]});
    let answered = respond(&mut peer, both, "Ada").await;
    assert_eq!(answered["result"]["accepted"], true, "{answered}");
}

/// INT-080, INT-084, INT-086, INT-133: every method reports why a token is not accepted any more,
/// with and without a guard.
#[tokio::test]
async fn rejections_of_tokens_are_explained() {
    for is_guarded in [false, true] {
        let guard = is_guarded.then(guard);
        let clock = Arc::new(ManualClock::default());
        let hand = clock.clone();
        let fixture = Fixture::interactive_with(move |flows| {
            flows.client_held(keys(), guard).engine(|engine| engine.clock(hand))
        });
        let mut peer = connect(&fixture, "ada").await;
        let waiting = start(&mut peer, "simple").await;
        let other = start(&mut peer, "simple").await;
        let params = json!({"sessionToken": other["sessionToken"]});
        let cancelled = peer.call("interaction.cancel", params).await["result"].clone();
        for method in ["respond", "continue", "complete", "cancel"] {
            let refused = speak(&mut peer, method, &cancelled["sessionToken"]).await;
            assert_eq!(refused["error"]["code"], -32006, "{method}: {refused}");
            assert_eq!(refused["error"]["data"]["sessionId"], other["sessionId"]);
        }
        clock.0.store(300_001, Ordering::Relaxed);
        for method in ["respond", "continue", "complete", "cancel", "getState"] {
            // A tombstone is retained for five minutes (C-11).
            let forgotten = speak(&mut peer, method, &cancelled["sessionToken"]).await;
            assert_eq!(forgotten["error"]["code"], -32001, "{method}: {forgotten}");
            if method != "getState" {
                let refused = speak(&mut peer, method, &waiting["sessionToken"]).await;
                assert_eq!(refused["error"]["code"], -32002, "{method}: {refused}");
                assert_eq!(refused["error"]["data"]["sessionId"], waiting["sessionId"]);
            }
        }
        let told = speak(&mut peer, "getState", &waiting["sessionToken"]).await["result"].clone();
        assert_eq!((&told["sessionId"], &told["state"]), (&waiting["sessionId"], &json!("error")));
        assert_eq!(told["metadata"]["error"]["name"], "SESSION_EXPIRED", "{told}");
        clock.0.store(600_000, Ordering::Relaxed);
        let forgotten = speak(&mut peer, "getState", &waiting["sessionToken"]).await;
        assert_eq!(forgotten["error"]["code"], -32001, "{forgotten}");
    }
}

/// C-55: an expired session looks the same, stored or client-held.
#[tokio::test]
async fn an_expired_session_looks_the_same_in_both_modes() {
    let mut told = Vec::new();
    for is_stateless in [false, true] {
        let clock = Arc::new(ManualClock::default());
        let hand = clock.clone();
        let fixture = Fixture::interactive_with(move |flows| {
            let flows = if is_stateless { flows.client_held(keys(), None) } else { flows };
            flows.engine(|engine| engine.clock(hand))
        });
        let mut peer = connect(&fixture, "ada").await;
        let started = start(&mut peer, "simple").await;
        clock.0.store(300_001, Ordering::Relaxed);
        let params = json!({"sessionId": started["sessionId"],
            "sessionToken": started["sessionToken"]});
        let reply = peer.call("interaction.getState", params).await;
        let mut result = reply["result"].as_object().unwrap().clone();
        result.remove("sessionToken");
        assert_eq!(result.remove("sessionId"), Some(started["sessionId"].clone()));
        told.push(result);
    }
    assert_eq!(told[0], told[1]);
}

/// Observers of calls learn the tool of a session from every request about it.
#[tokio::test]
async fn requests_about_a_session_name_its_tool() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observer = ToolObserver(seen.clone());
    let fixture = Fixture::interactive_as(|flows| flows, |server| server.observer(observer));
    let mut peer = connect(&fixture, "ada").await;
    let id = json!({"sessionId": start(&mut peer, "simple").await["sessionId"]});
    respond(&mut peer, id.clone(), "x").await;
    for method in ["getState", "getHistory", "continue", "cancel", "getState"] {
        let reply = peer.call(&format!("interaction.{method}"), id.clone()).await;
        assert!(reply.get("result").is_some(), "{method}: {reply}");
    }
    let seen = seen.lock().unwrap().clone();
    let about: Vec<_> =
        seen.iter().filter(|(method, _)| method.starts_with("interaction.")).collect();
    assert_eq!(about.len(), 7, "{about:?}");
    assert!(about.iter().all(|(_, tool)| tool.as_deref() == Some("simple")), "{about:?}");
}

/// Observer of the methods called, and the tools they are about.
struct ToolObserver(Arc<Mutex<Vec<SeenCall>>>);

/// Method of a call, and the tool it is about.
type SeenCall = (String, Option<String>);

impl Observer for ToolObserver {
    fn detail(&self) -> Detail {
        Detail::Outline
    }

    fn observe(&self, exchange: &Observed<'_>) {
        let tool = exchange.tool.map(str::to_owned);
        self.0.lock().unwrap().push((exchange.method.to_owned(), tool));
    }
}

/// INT-041, C-11: of two concurrent last answers one is rejected; a last answer repeated after its
/// reply returns the same result.
#[tokio::test]
async fn the_last_answer_counts_once() {
    let fixture = Fixture::interactive();
    let mut peer = connect_by(&fixture, "ada", Revision::V2025_03_26).await;
    let id = start(&mut peer, "simple").await["sessionId"].clone();
    let params = json!({"sessionId": id, "response": {"value": "Ada"}});
    let answer = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "interaction.respond", "params": params});
    peer.send(json!([answer("a"), answer("b")]));
    let mut replies = peer.find(Value::is_array).await.as_array().unwrap().clone();
    replies.sort_by_key(|reply| reply["id"].to_string());
    assert_eq!(replies[0]["result"]["accepted"], true, "{replies:?}");
    let error = &replies[1]["error"];
    let from_to = (&error["code"], &error["data"]["from"], &error["data"]["to"]);
    assert_eq!(from_to, (&json!(-32003), &json!("completed"), &json!("processing")));
    let again = respond(&mut peer, json!({"sessionId": id}), "Ada").await;
    assert_eq!(again["result"]["accepted"], true, "{again}");
}

async fn speak(peer: &mut Peer, method: &str, token: &Value) -> Value {
    let params = json!({"sessionToken": token, "response": {"value": "Ada"}});
    peer.call(&format!("interaction.{method}"), params).await
}

pub(crate) fn guard() -> Arc<dyn ReplayGuard> {
    Arc::new(MemoryGuard::new(10))
}

pub(crate) fn keys() -> KeyRing {
    KeyRing::new(Key::from_bytes([7; 32]))
}

/// Clock that is set by the test.
#[derive(Debug, Default)]
pub(crate) struct ManualClock(pub(crate) AtomicU64);

impl ManualClock {
    pub(crate) fn at(millis: u64) -> Self {
        Self(AtomicU64::new(millis))
    }

    pub(crate) fn forward(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

async fn connect(fixture: &Fixture, name: &str) -> Peer {
    connect_by(fixture, name, Revision::V2025_11_25).await
}

async fn connect_by(fixture: &Fixture, name: &str, revision: Revision) -> Peer {
    let info =
        ConnectionInfo { principal: Principal::named(name), ..ConnectionInfo::new("memory") };
    let mut peer = memory::connect_with(&fixture.server, info);
    peer.initialize(revision).await;
    peer
}

async fn start(peer: &mut Peer, flow: &str) -> Value {
    let reply = peer.call("interaction.start", json!({"toolName": flow})).await;
    assert!(reply.get("result").is_some(), "{reply}");
    reply["result"].clone()
}

async fn respond(peer: &mut Peer, mut session: Value, value: &str) -> Value {
    session["response"] = json!({"value": value});
    peer.call("interaction.respond", session).await
}

async fn state(peer: &mut Peer, id: &Value) -> Value {
    peer.call("interaction.getState", json!({"sessionId": id})).await["result"].clone()
}
