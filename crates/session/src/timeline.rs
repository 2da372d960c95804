//! The states that a session had: one after each event of its journal.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::JournalEvent;
use crate::session::{Damaged, Session, State};

/// A session right after an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry<'a> {
    /// Number of the event, from 1.
    pub number: usize,
    /// Questions answered so far.
    pub turn: usize,
    /// The event.
    pub event: &'a JournalEvent,
    /// State of the session.
    pub state: State,
    /// Key of the open question.
    pub question: Option<String>,
    /// Data gathered so far.
    pub data: Map<String, Value>,
}

/// Lists the states of a session, oldest first. Of an ended session the journal has the end only.
///
/// ```
/// assert!(mcp_flow_session::timeline(&[]).unwrap().is_empty());
/// ```
pub fn timeline(events: &[JournalEvent]) -> Result<Vec<TimelineEntry<'_>>, Damaged> {
    let mut entries = Vec::with_capacity(events.len());
    let mut session: Option<Session> = None;
    for (index, event) in events.iter().enumerate() {
        let session = match &mut session {
            Some(session) if matches!(event, JournalEvent::Rewound { .. }) => {
                *session = Session::replay(&events[..=index])?.ok_or(Damaged { index })?;
                session
            }
            Some(session) => {
                session.apply(event.clone())?;
                session
            }
            None => match Session::replay(&events[..1])? {
                Some(begun) => session.insert(begun),
                None => break,
            },
        };
        entries.push(TimelineEntry {
            number: index + 1,
            turn: session.history.len(),
            event,
            state: session.state,
            question: session.open.as_ref().map(|open| open.key.clone()),
            data: session.data.clone(),
        });
    }
    Ok(entries)
}
