//! Replay protection for client-held sessions: the last turn recorded for each of them.

use std::collections::BTreeSet;
use std::fmt;
use std::future::ready;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::StoreFuture;
use crate::{SessionId, Timestamp};

/// Records the last turn of each client-held session, so that older tokens are rejected (C-43).
///
/// A turn is durable before `keep_turn` returns, as far as the implementation is. A record lasts
/// until [`LastTurn::until`], when no token of its session is accepted any more. One without a
/// deadline has no end of its own. Every implementation limits the number of records; past the
/// limit it evicts by [`LastTurn::eviction_key`]: first records without a deadline, the oldest
/// written first, then the record that expires soonest. A session whose record was evicted early
/// can be replayed from any of its tokens.
pub trait ReplayGuard: Send + Sync + fmt::Debug + 'static {
    /// Reads the last turn of a session; none if no turn was recorded, or its record is gone.
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>>;

    /// Records the last turn of a session in place of the one before.
    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()>;
}

/// The last turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastTurn {
    /// Id of the session.
    pub id: SessionId,
    /// Number of the turn; later ones are greater, and nothing follows the greatest there is.
    pub turn: u64,
    /// Time from which no token of the session is accepted; [`Timestamp::NEVER`] without a
    /// deadline.
    pub until: Timestamp,
    /// Time of the turn.
    pub at: Timestamp,
}

impl LastTurn {
    /// Smallest [`eviction_key`](Self::eviction_key) of records without a deadline.
    pub const NO_DEADLINE: u64 = 1 << 63;

    /// Sort key of the record: its deadline, or, above all deadlines, the time it was written.
    pub fn eviction_key(&self) -> u64 {
        match self.until {
            Timestamp::NEVER => Self::NO_DEADLINE | self.at.as_millis(),
            until => until.as_millis().min(Self::NO_DEADLINE - 1),
        }
    }
}

/// Replay guard in memory: enough where the keys of the tokens are lost with the process too.
#[derive(Debug)]
pub struct MemoryGuard {
    records: Mutex<Records>,
    limit: usize,
}

#[derive(Debug, Default)]
struct Records {
    /// Turn and eviction key of each session.
    turns: HashMap<SessionId, (u64, u64)>,
    order: BTreeSet<(u64, SessionId)>,
}

impl MemoryGuard {
    /// Creates a guard that holds records of at most this many sessions.
    pub fn new(sessions: usize) -> Self {
        Self { records: Mutex::default(), limit: sessions.max(1) }
    }
}

impl ReplayGuard for MemoryGuard {
    fn last_turn(&self, id: SessionId) -> StoreFuture<'_, Option<u64>> {
        let records = self.records.lock();
        Box::pin(ready(Ok(records.turns.get(&id).map(|(turn, _)| *turn))))
    }

    fn keep_turn(&self, turn: LastTurn) -> StoreFuture<'_, ()> {
        let mut records = self.records.lock();
        let key = turn.eviction_key();
        if let Some((_, before)) = records.turns.insert(turn.id, (turn.turn, key)) {
            records.order.remove(&(before, turn.id));
        }
        records.order.insert((key, turn.id));
        while records.evict(turn.at, self.limit) {}
        Box::pin(ready(Ok(())))
    }
}

impl Records {
    /// Evicts one record that has expired, or is over the limit. Returns whether there was one.
    fn evict(&mut self, now: Timestamp, limit: usize) -> bool {
        let Some(&first) = self.order.first() else { return false };
        let evicted = if first.0 <= now.as_millis() {
            first
        } else if self.turns.len() > limit {
            let without_deadline = (LastTurn::NO_DEADLINE, SessionId::from_random(0))..;
            self.order.range(without_deadline).next().copied().unwrap_or(first)
        } else {
            return false;
        };
        self.order.remove(&evicted);
        self.turns.remove(&evicted.1);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::{LastTurn, MemoryGuard, ReplayGuard};
    use crate::{SessionId, Timestamp};

    /// C-43: past the limit, sessions without a deadline go first, those idle longest before
    /// others.
    #[test]
    fn records_without_a_deadline_are_evicted_oldest_first() {
        let guard = MemoryGuard::new(3);
        for (session, until, at) in [(1, None, 1), (2, None, 2), (3, Some(90), 3), (1, None, 4)] {
            keep(&guard, session, until, at);
        }
        keep(&guard, 4, Some(80), 5);
        assert_eq!(kept(&guard), [1, 3, 4], "session 2 was idle longest");
        keep(&guard, 5, Some(70), 6);
        assert_eq!(kept(&guard), [3, 4, 5], "those with a deadline are protected until it");
        keep(&guard, 6, Some(100), 7);
        assert_eq!(kept(&guard), [3, 4, 6], "then the one that expires soonest goes");
        keep(&guard, 7, Some(200), 95);
        assert_eq!(kept(&guard), [6, 7], "expired ones make room");
    }

    fn keep(guard: &MemoryGuard, session: u128, until: Option<u64>, at: u64) {
        let id = SessionId::from_random(session);
        let until = until.map_or(Timestamp::NEVER, Timestamp::from_millis);
        now(guard.keep_turn(LastTurn { id, turn: 1, until, at: Timestamp::from_millis(at) }));
    }

    fn kept(guard: &MemoryGuard) -> Vec<u128> {
        let is_kept = |id: &u128| now(guard.last_turn(SessionId::from_random(*id))).is_some();
        (1..10).filter(is_kept).collect()
    }

    fn now<T>(reply: super::StoreFuture<'_, T>) -> T {
        match pin!(reply).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done.unwrap(),
            Poll::Pending => panic!("memory does not wait"),
        }
    }
}
