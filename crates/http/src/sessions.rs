//! All sessions, by their identifiers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_server::Principal;

/// What can be kept here.
pub(crate) trait Keepable: Send + Sync + 'static {
    fn principal(&self) -> &Principal;

    fn belongs_to(&self, principal: &Principal) -> bool {
        self.principal() == principal
    }

    /// How long nothing has happened, unless something is going on.
    fn idle(&self) -> Option<Duration>;

    /// Ends it for good.
    fn end(&self);
}

/// Sessions of one kind, up to a number.
#[derive(Debug)]
pub(crate) struct Sessions<T> {
    open: Mutex<HashMap<String, Arc<T>>>,
    most: usize,
}

impl<T: Keepable> Sessions<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { open: Mutex::default(), most }
    }

    /// Keeps a session. When there are too many, one of the principal goes that has the most: whoever
    /// opens too many pays for it with their own, and shuts nobody out. `false` if those are the
    /// newcomer's and none of them is idle.
    pub(crate) fn add(&self, id: &str, session: Arc<T>) -> bool {
        let mut open = self.open();
        let evicted = if open.len() < self.most {
            None
        } else {
            let own = session.principal().name();
            let mut counts = HashMap::from([(own, 1_usize)]);
            for other in open.values() {
                *counts.entry(other.principal().name()).or_default() += 1;
            }
            // Among equals the newcomer yields.
            let greedy = counts.iter().max_by_key(|(name, count)| (**count, **name == own));
            let greedy = greedy.map_or(own, |(name, _)| *name);
            let idlest = open
                .iter()
                .filter(|(_, other)| other.principal().name() == greedy)
                .filter(|(_, other)| greedy != own || other.idle().is_some())
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

    /// The session with this id, if it is the principal's own. Another's is as good as none (C-53).
    pub(crate) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<T>> {
        let session = self.open().get(id).cloned()?;
        session.belongs_to(principal).then_some(session)
    }

    /// Takes a session out; ending it is up to the caller.
    pub(crate) fn remove(&self, id: &str) -> Option<Arc<T>> {
        self.open().remove(id)
    }

    /// Ends sessions that have been idle for too long.
    pub(crate) fn sweep(&self, limit: Duration) {
        let mut expired = Vec::new();
        self.open().retain(|_, session| {
            let is_expired = session.idle().is_some_and(|idle| idle >= limit);
            if is_expired {
                expired.push(session.clone());
            }
            !is_expired
        });
        expired.iter().for_each(|session| session.end());
    }

    /// Ends all of them. Each is taken out when what it runs is done.
    pub(crate) fn end_all(&self) {
        let all: Vec<_> = self.open().values().cloned().collect();
        all.iter().for_each(|session| session.end());
    }

    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Arc<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An identifier nobody can guess: 128 random bits in hexadecimal (MCP-021).
pub(crate) fn new_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}
