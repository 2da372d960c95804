//! Table of open transport sessions by id, with eviction and idle expiry.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_server::Principal;
use parking_lot::Mutex;

/// A session of an HTTP transport, as far as the table needs to know it.
pub(crate) trait TransportSession: Send + Sync + 'static {
    fn principal(&self) -> &Principal;

    fn belongs_to(&self, principal: &Principal) -> bool {
        self.principal() == principal
    }

    /// Returns how long the session has been idle, or `None` while it is in use.
    fn idle(&self) -> Option<Duration>;

    /// Ends the session.
    fn end(&self);
}

/// Open sessions of one transport, up to a limit.
#[derive(Debug)]
pub(crate) struct Sessions<T> {
    open: Mutex<HashMap<String, Arc<T>>>,
    limit: usize,
}

impl<T: TransportSession> Sessions<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { open: Mutex::default(), limit }
    }

    /// Adds a session. At the limit, the idlest session of the principal with the most sessions is
    /// evicted, so that one principal cannot crowd out the others. Returns `false` if that principal
    /// is the new session's own and none of its sessions is idle.
    pub(crate) fn add(&self, id: &str, session: Arc<T>) -> bool {
        let mut open = self.open.lock();
        let evicted = if open.len() < self.limit {
            None
        } else {
            let own = session.principal().name();
            let mut counts = HashMap::from([(own, 1_usize)]);
            for other in open.values() {
                *counts.entry(other.principal().name()).or_default() += 1;
            }
            // In a tie, the new session's own principal pays.
            let largest = counts.iter().max_by_key(|(name, count)| (**count, **name == own));
            let largest = largest.map_or(own, |(name, _)| *name);
            let idlest = open
                .iter()
                .filter(|(_, other)| other.principal().name() == largest)
                .filter(|(_, other)| largest != own || other.idle().is_some())
                .max_by_key(|(_, other)| other.idle())
                .map(|(id, _)| id.clone());
            let Some(idlest) = idlest else { return false };
            open.remove(&idlest)
        };
        open.insert(id.to_owned(), session);
        drop(open);
        if let Some(evicted) = evicted {
            evicted.end();
        }
        true
    }

    /// Returns the session with this id if it belongs to the principal. Sessions of others are
    /// reported as absent (C-53).
    pub(crate) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<T>> {
        let session = self.open.lock().get(id).cloned()?;
        session.belongs_to(principal).then_some(session)
    }

    /// Removes a session without ending it.
    pub(crate) fn remove(&self, id: &str) -> Option<Arc<T>> {
        self.open.lock().remove(id)
    }

    /// Ends sessions that have been idle for longer than the limit.
    pub(crate) fn sweep(&self, limit: Duration) {
        let mut expired = Vec::new();
        self.open.lock().retain(|_, session| {
            let is_expired = session.idle().is_some_and(|idle| idle >= limit);
            if is_expired {
                expired.push(session.clone());
            }
            !is_expired
        });
        expired.iter().for_each(|session| session.end());
    }

    /// Ends all sessions. Each is removed once its running calls are done.
    pub(crate) fn end_all(&self) {
        let all: Vec<_> = self.open.lock().values().cloned().collect();
        all.iter().for_each(|session| session.end());
    }

    pub(crate) fn count(&self) -> usize {
        self.open.lock().len()
    }
}

/// Creates an unguessable id: 128 random bits in hexadecimal (MCP-021).
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}
