//! The examples of `docs/interaction.md`, each run against a server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_flow_engine::{Flow, SessionLimits};
use mcp_flow_interaction::{InteractionBuilder, OfferedFlow, protocol_errors};
use mcp_flow_proto::Revision;
use mcp_flow_server::{ConnectionInfo, Principal};
use mcp_flow_session::question::text;
use mcp_flow_session::store::{
    Append, Census, Filter, Listed, PageRequest, StoreError, StoreFuture,
};
use mcp_flow_session::{JournalEvent, SessionId, Store, Timestamp};
use mcp_flow_testkit::Peer;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_testkit_fixture::memory;
use serde_json::{Map, Value, json};

use crate::sessions::{ManualClock, guard, keys};

/// INT-008, INT-078: the messages in the documentation are sent, in that order.
#[tokio::test]
async fn every_example_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interaction.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for (number, block) in text.split("```jsonrpc").skip(1).enumerate() {
        let block = block.split("```").next().unwrap();
        let (mode, lines) = block.split_once('\n').unwrap();
        let mut example = Example::open(mode.trim()).await;
        for line in lines.lines() {
            example.follow(line, number).await;
        }
        count += 1;
    }
    assert!(count > 15, "the examples are no longer found");
}

/// INT-079 to INT-085: every error of the protocol has a section of its own.
#[test]
fn every_error_is_documented() {
    let text = include_str!("../../../docs/interaction.md");
    for fault in [
        protocol_errors::SESSION_NOT_FOUND,
        protocol_errors::SESSION_EXPIRED,
        protocol_errors::INVALID_STATE_TRANSITION,
        protocol_errors::VALIDATION_FAILED,
        protocol_errors::TIMEOUT,
        protocol_errors::ALREADY_CANCELLED,
        protocol_errors::NOT_INTERACTIVE,
        protocol_errors::FLOW_CHANGED,
    ] {
        assert!(text.contains(&format!("### {} {}\n", fault.code, fault.name)), "{}", fault.name);
        assert!(
            text.contains(&format!("\"code\":{},", fault.code)),
            "no example of {}",
            fault.name
        );
    }
}

/// -32000 and -32603 have examples of all their names.
#[test]
fn every_error_of_mcp_has_an_example() {
    let text = include_str!("../../../docs/interaction.md");
    for name in ["RATE_LIMITED", "PAYLOAD_TOO_LARGE", "ACCESS_DENIED", "INTERNAL_ERROR"] {
        assert!(text.contains(&format!("\"name\":\"{name}\"")), "no example of {name}");
    }
}

/// One example of the document, and the values of its placeholders.
struct Example {
    peer: Peer,
    principal: Principal,
    clock: Arc<ManualClock>,
    /// Set once the flow `booking` has other code.
    changed: Arc<AtomicBool>,
    names: HashMap<String, String>,
}

impl Example {
    async fn open(mode: &str) -> Self {
        let clock = Arc::new(ManualClock::at(1_704_067_200_000));
        let hand = clock.clone();
        let changed = Arc::<AtomicBool>::default();
        let is_changed = Arc::clone(&changed);
        let fixture = Fixture::interactive_with(|flows| {
            server_of(mode, flows, is_changed).engine(move |engine| engine.clock(hand))
        });
        let principal = Principal::named("ada");
        let info = ConnectionInfo { principal: principal.clone(), ..ConnectionInfo::new("memory") };
        let mut peer = memory::connect_with(&fixture.server, info);
        let inline = json!({"experimental": {"interaction": {"delivery": "inline"}}});
        match mode {
            "early" => {}
            "inline" | "signals" | "slow" => {
                peer.initialize_with(Revision::V2025_11_25, inline).await;
            }
            _ => {
                peer.initialize(Revision::V2025_11_25).await;
            }
        }
        Self { peer, principal, clock, changed, names: HashMap::new() }
    }

    async fn follow(&mut self, line: &str, number: usize) {
        if let Some(sent) = line.strip_prefix("→ ") {
            self.peer.send(self.filled_in(sent));
        } else if let Some(expected) = line.strip_prefix("← ") {
            let expected = self.filled_in(expected);
            let expected = serde_json::from_str(&expected).unwrap();
            let came = self.peer.next().await;
            let is_same = self.matches(&expected, &came);
            assert!(is_same, "example {number}, expected\n{expected}\nbut there came\n{came}");
        } else if line == "# the flow changes" {
            self.changed.store(true, Ordering::SeqCst);
        } else if line == "# the token is revoked" {
            self.principal.revoke();
        } else if let Some(wait) = line.strip_prefix("# ") {
            let millis = wait.strip_suffix(" ms later").unwrap().parse().unwrap();
            self.clock.forward(millis);
        } else {
            assert_eq!(line, "", "example {number}");
        }
    }

    /// Returns a line with the values of its placeholders.
    fn filled_in(&self, line: &str) -> String {
        self.names.iter().fold(line.to_owned(), |line, (name, value)| {
            line.replace(&format!("\"{name}\""), &format!("\"{value}\""))
                .replace(&format!(": {name}\""), &format!(": {value}\""))
        })
    }

    /// Compares a value with the expected one; a placeholder without a value takes this one.
    fn matches(&mut self, expected: &Value, value: &Value) -> bool {
        match (expected, value) {
            (Value::String(any), _) if any == "…" => true,
            (Value::String(name), Value::String(value)) if NAMES.contains(&name.as_str()) => {
                self.names.insert(name.clone(), value.clone());
                true
            }
            (Value::Object(expected), Value::Object(value)) => {
                expected.len() == value.len()
                    && expected.iter().all(|(name, expected)| {
                        value.get(name).is_some_and(|value| self.matches(expected, value))
                    })
            }
            _ => expected == value,
        }
    }
}

fn server_of(
    mode: &str,
    flows: InteractionBuilder,
    is_changed: Arc<AtomicBool>,
) -> InteractionBuilder {
    let timeout = Duration::from_secs(30);
    match mode {
        "changed" => {
            let limits = SessionLimits { linger: Duration::ZERO, ..SessionLimits::default() };
            let book = move |flow: Flow, _: Map<String, Value>| {
                let key = if is_changed.load(Ordering::SeqCst) { "destination" } else { "city" };
                async move { flow.ask(key, text("Where to?")).await }
            };
            flows.limits(limits).flows(vec![OfferedFlow::new("booking", book)])
        }
        "stateless" => flows.client_held(keys(), Some(guard())),
        "slow" => flows
            .limits(SessionLimits {
                operation: Duration::from_millis(10),
                ..SessionLimits::default()
            })
            .response_timeouts(timeout, timeout),
        "limited" => {
            flows.limits(SessionLimits { sessions_per_owner: 1, ..SessionLimits::default() })
        }
        "signals" => {
            let order =
                async |flow: Flow, _: Map<String, Value>| flow.wait_for::<u64>("paid").await;
            flows.flows(vec![OfferedFlow::new("order", order)])
        }
        "small" => flows.limits(SessionLimits { metadata: 16, ..SessionLimits::default() }),
        "full" => flows.store(Arc::new(FullStore)),
        "" | "early" | "inline" => flows,
        other => panic!("no server is known for {other:?}"),
    }
}

/// Store without room for a session.
#[derive(Debug)]
struct FullStore;

impl Store for FullStore {
    fn read(&self, _: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn append(&self, _: Append) -> StoreFuture<'_, ()> {
        Box::pin(async { Err(StoreError::Full) })
    }

    fn list(&self, _: Filter, _: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn due(&self, _: Timestamp, _: usize) -> StoreFuture<'_, Vec<SessionId>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        Box::pin(async { Ok(Census::default()) })
    }

    fn erase(&self, _: SessionId) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// Placeholders for values that the server generates.
const NAMES: [&str; 3] = ["SESSION", "TOKEN", "SECOND_TOKEN"];
