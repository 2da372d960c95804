//! Checks of stores that are stopped in the middle of writing and opened again.

use mcp_flow_session::JournalEvent;

use super::{Opened, append, id, noted, started};

/// Writes until the store fails, and remembers what was acknowledged.
#[derive(Debug, Default)]
pub struct Witness {
    /// For each session: the appends in order, and how many of them were acknowledged.
    journals: Vec<(Vec<Vec<JournalEvent>>, usize)>,
}

impl Witness {
    /// Writes to several sessions in turn, until the store fails or everything is written.
    pub async fn write(store: &Opened) -> Self {
        let mut witness = Self { journals: vec![(Vec::new(), 0); SESSIONS] };
        for round in 0..ROUNDS {
            for session in 0..SESSIONS {
                let journal = &mut witness.journals[session];
                let length = journal.0.iter().map(Vec::len).sum();
                let mut events = vec![noted(round), noted(round + 100)];
                if round == 0 {
                    events[0] = started("ada");
                }
                journal.0.push(events.clone());
                let write = append(id(session as u128), length, events);
                if store.append(write).await.is_err() {
                    return witness;
                }
                journal.1 += 1;
            }
        }
        witness
    }

    /// Returns whether everything was written.
    pub fn is_complete(&self) -> bool {
        let all = self.journals.iter().all(|(_, acknowledged)| *acknowledged == ROUNDS);
        all && !self.journals.is_empty()
    }

    /// Checks a store that was opened again: all acknowledged appends are there, and beyond them at
    /// most one whole append that was in progress.
    pub async fn check(&self, store: &Opened) {
        for (session, (tried, acknowledged)) in self.journals.iter().enumerate() {
            let kept = store.read(id(session as u128)).await.unwrap();
            let whole = (*acknowledged..=tried.len()).any(|count| kept == tried[..count].concat());
            assert!(whole, "session {session}: {acknowledged} acknowledged, but found {kept:?}");
            // It can be written to again.
            let write = append(id(session as u128), kept.len(), vec![noted(999)]);
            store.append(write).await.unwrap();
        }
    }
}

const SESSIONS: usize = 3;
const ROUNDS: usize = 4;
