//! The contract of every store of journals.
//!
//! A store's tests hand in how to open it and get one test per clause:
//!
//! ```text
//! mcp_flow_testkit::store_contract!(|| std::sync::Arc::new(MemoryStore::new()));
//! ```
//!
//! [`crash`] is for those that survive their process.

mod contract;
pub mod crash;
mod model;

use std::sync::Arc;

use mcp_flow_session::event::{Ended, Ending, Started};
use mcp_flow_session::store::{Append, Summary};
use mcp_flow_session::{Event, Owner, SessionId, State, Store, Timestamp};
use serde_json::{Map, json};

pub use contract::{
    appends_depend_on_the_length, deadlines_come_due, erasing_forgets, lists_come_in_pages,
    replacing_erases_what_was, sessions_are_counted, what_is_appended_is_read,
    writers_exclude_each_other,
};
pub use model::any_sequence_of_operations_does_what_the_model_does;

/// Makes one test of each clause of the contract, each on a store of its own.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract!($open;
            what_is_appended_is_read,
            appends_depend_on_the_length,
            replacing_erases_what_was,
            lists_come_in_pages,
            sessions_are_counted,
            deadlines_come_due,
            erasing_forgets,
            writers_exclude_each_other,
            any_sequence_of_operations_does_what_the_model_does
        );
    };
    ($open:expr; $($clause:ident),+) => {
        $(
            #[tokio::test]
            async fn $clause() {
                $crate::store::$clause($open()).await;
            }
        )+
    };
}

/// A store behind a reference, as engines use it.
pub type Opened = Arc<dyn Store>;

/// The id of the session of this number.
pub fn id(number: u128) -> SessionId {
    // Spread out, as random ids are.
    SessionId::from_random(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

/// The first events of a session.
pub fn started(owner: &str) -> Event {
    Event::Started(Started {
        flow: "sample".into(),
        owner: Owner::new(owner),
        params: Map::new(),
        context: Map::new(),
        inactivity: None,
        ends: None,
        at: Timestamp::from_millis(1),
    })
}

/// An event that can be told from others.
pub fn noted(number: usize) -> Event {
    let (key, at) = (format!("note {number}"), Timestamp::from_millis(2));
    Event::DataSet { key, value: json!({"number": number, "text": "so it was written"}), at }
}

/// An event that ends a session.
pub fn ended(owner: &str) -> Event {
    Event::Ended(Ended {
        flow: "sample".into(),
        owner: Owner::new(owner),
        created: Timestamp::from_millis(1),
        turns: 0,
        last_answer: None,
        last_by_default: false,
        finished_early: false,
        last_activity: None,
        ending: Ending::Cancelled { reason: None },
        kept: serde_json::Map::new(),
        at: Timestamp::from_millis(3),
        until: Timestamp::from_millis(4),
    })
}

/// What a session of this owner is that stands here.
pub fn summary(owner: &str, state: State, deadline: Option<u64>) -> Summary {
    Summary {
        flow: "sample".into(),
        owner: Owner::new(owner),
        state,
        created: Timestamp::from_millis(1),
        touched: Timestamp::from_millis(2),
        deadline: deadline.map(Timestamp::from_millis),
    }
}

/// Events to be added to a session that waits.
pub fn append(id: SessionId, length: usize, events: Vec<Event>) -> Append {
    let summary = summary("ada", State::WaitingUser, None);
    Append { id, length, events, summary, replace: false }
}
