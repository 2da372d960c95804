//! Contract of session stores: one test per clause, for every implementation.
//!
//! ```text
//! mcp_flow_testkit_store::store_contract!(|| std::sync::Arc::new(MemoryStore::new()));
//! ```
//!
//! [`crash`] checks a store that was stopped in the middle of writing. Depends on `session` only.

// A failed expectation panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

mod contract;
pub mod crash;
mod model;
mod shared_contract;
mod shared_memory;

use std::sync::Arc;

use mcp_flow_session::event::{Ending, SessionEnded, SessionStarted};
use mcp_flow_session::store::{Append, Fence, Summary};
use mcp_flow_session::{JournalEvent, Owner, SessionId, State, Store, Timestamp};
use serde_json::{Map, json};

pub use contract::{
    an_append_at_an_outdated_length_conflicts, appended_events_are_read_back,
    concurrent_writers_exclude_each_other, deadlines_come_due, erased_sessions_are_forgotten,
    lists_are_paginated, nothing_follows_the_end, replacing_a_journal_erases_it,
    sessions_are_counted, stuck_sessions_are_due, timers_come_due,
};
pub use model::any_sequence_of_operations_matches_the_model;
pub use shared_contract::{
    changes_are_delivered_or_missed, claims_are_disjoint, leases_expire,
    one_conflict_spoils_no_batch, records_are_changed_by_their_holder,
    released_sessions_can_be_claimed, the_appending_node_holds_waiting_sessions,
    zombie_writers_are_refused,
};
pub use shared_memory::{Mutation, SharedConnection, SharedMemory};

/// Makes one test of each clause, each with a store of its own.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract!($open;
            appended_events_are_read_back,
            an_append_at_an_outdated_length_conflicts,
            replacing_a_journal_erases_it,
            nothing_follows_the_end,
            lists_are_paginated,
            sessions_are_counted,
            deadlines_come_due,
            timers_come_due,
            stuck_sessions_are_due,
            erased_sessions_are_forgotten,
            concurrent_writers_exclude_each_other,
            any_sequence_of_operations_matches_the_model
        );
    };
    ($open:expr; $($clause:ident),+) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::$clause($open()).await;
            }
        )+
    };
}

/// Makes one test of each clause for stores that several processes use at once. The expression
/// opens a store of its own twice.
#[macro_export]
macro_rules! shared_store_contract {
    ($open:expr) => {
        $crate::store_contract!($open;
            zombie_writers_are_refused,
            the_appending_node_holds_waiting_sessions,
            claims_are_disjoint,
            released_sessions_can_be_claimed,
            leases_expire,
            records_are_changed_by_their_holder,
            changes_are_delivered_or_missed,
            one_conflict_spoils_no_batch
        );
    };
}

/// A store as engines use it.
pub type Opened = Arc<dyn Store>;

/// Session id for a number.
pub fn id(number: u128) -> SessionId {
    // Spread out, as random ids are.
    SessionId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// First event of a session.
pub fn started(owner: &str) -> JournalEvent {
    JournalEvent::Started(SessionStarted {
        flow: "sample".into(),
        owner: Owner::new(owner),
        params: Map::new(),
        context: Map::new(),
        inactivity: None,
        inactivity_is_default: false,
        ends: None,
        retention: None,
        trace: None,
        scopes: Vec::new(),
        depth: 0,
        at: Timestamp::from_millis(1),
    })
}

/// Event that is distinguishable by its number.
pub fn noted(number: usize) -> JournalEvent {
    let (key, at) = (format!("note {number}"), Timestamp::from_millis(2));
    JournalEvent::DataSet { key, value: json!({"number": number, "text": "so it was written"}), at }
}

/// Event that ends a session.
pub fn ended(owner: &str) -> JournalEvent {
    JournalEvent::Ended(SessionEnded {
        flow: "sample".into(),
        owner: Owner::new(owner),
        created: Timestamp::from_millis(1),
        turns: 0,
        last_answer: None,
        last_by_default: false,
        finished_early: false,
        last_activity: None,
        ending: Ending::Cancelled { reason: None },
        uncompensated: Vec::new(),
        kept: serde_json::Map::new(),
        at: Timestamp::from_millis(3),
        until: Timestamp::from_millis(4),
    })
}

/// Summary of a session.
pub fn summary(owner: &str, state: State, deadline: Option<u64>) -> Summary {
    Summary {
        flow: "sample".into(),
        owner: Owner::new(owner),
        state,
        created: Timestamp::from_millis(1),
        touched: Timestamp::from_millis(2),
        deadline: deadline.map(Timestamp::from_millis),
        wakes: None,
        is_asleep: false,
        labels: Default::default(),
        stuck: None,
    }
}

/// Append to a session that waits.
pub fn append(id: SessionId, length: usize, events: Vec<JournalEvent>) -> Append {
    let summary = summary("ada", State::WaitingUser, None);
    Append { id, length, events, summary, replace: false, fence: Fence::default() }
}
