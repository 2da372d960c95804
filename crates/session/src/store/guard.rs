//! Replay protection: the last turn of each session that its client carries.

use std::collections::VecDeque;
use std::fmt;
use std::future::ready;
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use super::Reply;
use crate::{SessionId, Timestamp};

/// Remembers how far sessions have come that their clients carry in tokens, so that old tokens are
/// recognised (C-43).
///
/// What was kept is durable before `keep_turn` returns, as far as the implementation promises to be.
/// It may forget a session after the time it was told, and must not before, as long as it has room.
pub trait ReplayGuard: Send + Sync + fmt::Debug + 'static {
    /// Reads the last turn of a session; none if it had no turn yet, or is forgotten.
    fn last_turn(&self, id: SessionId) -> Reply<'_, Option<u64>>;

    /// Remembers the last turn of a session in place of the one before.
    fn keep_turn(&self, turn: LastTurn) -> Reply<'_, ()>;
}

/// The last turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTurn {
    /// Id of the session.
    pub id: SessionId,
    /// Number of the turn; later ones are greater, and nothing follows the greatest there is.
    pub turn: u64,
    /// Until when tokens of the session can be used.
    pub until: Timestamp,
    /// Time of the turn.
    pub at: Timestamp,
}

/// A guard that forgets everything when the process ends: enough where the keys of tokens do, too.
///
/// Bounded: beyond so many sessions the one that was added first is forgotten.
#[derive(Debug)]
pub struct MemoryGuard {
    seen: Mutex<Seen>,
    most: usize,
}

#[derive(Debug, Default)]
struct Seen {
    turns: HashMap<SessionId, u64>,
    order: VecDeque<SessionId>,
}

impl MemoryGuard {
    /// A guard for so many sessions.
    pub fn new(sessions: usize) -> Self {
        Self { seen: Mutex::default(), most: sessions.max(1) }
    }
}

impl ReplayGuard for MemoryGuard {
    fn last_turn(&self, id: SessionId) -> Reply<'_, Option<u64>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        Box::pin(ready(Ok(seen.turns.get(&id).copied())))
    }

    fn keep_turn(&self, LastTurn { id, turn, .. }: LastTurn) -> Reply<'_, ()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.turns.insert(id, turn).is_none() {
            seen.order.push_back(id);
            if seen.order.len() > self.most
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.turns.remove(&oldest);
            }
        }
        Box::pin(ready(Ok(())))
    }
}
