//! A store that forgets everything when the process ends.

use std::collections::BTreeSet;
use std::future::ready;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::{Append, Filter, Listed, Page, Phase, Reply, Store, StoreError, Summary};
use super::{decode, encode};
use crate::event::Event;
use crate::{Owner, SessionId, Timestamp};

/// Keeps journals in memory, encoded as on disk.
///
/// Several engines may share one, each holding a reference, to play several processes.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many sessions are kept, those that are over included.
    pub fn len(&self) -> usize {
        self.lock().journals.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn read(&self, id: SessionId) -> Reply<'_, Vec<Event>> {
        let tables = self.lock();
        let events = match tables.journals.get(&id) {
            None => Ok(Vec::new()),
            Some(journal) => decode(&journal.bytes).map_err(|_| StoreError::Damaged(id)),
        };
        Box::pin(ready(events))
    }

    fn append(&self, append: Append) -> Reply<'_, ()> {
        let bytes = encode(&append.events);
        Box::pin(ready(self.lock().append(append, &bytes)))
    }

    fn list(&self, filter: Filter, page: Page) -> Reply<'_, Vec<Listed>> {
        Box::pin(ready(Ok(self.lock().list(&filter, page))))
    }

    fn due(&self, time: Timestamp, most: usize) -> Reply<'_, Vec<SessionId>> {
        let tables = self.lock();
        let due = tables.deadlines.range(..=(time, LAST)).take(most).map(|(_, id)| *id).collect();
        Box::pin(ready(Ok(due)))
    }

    fn erase(&self, id: SessionId) -> Reply<'_, ()> {
        let mut tables = self.lock();
        if let Some(journal) = tables.journals.remove(&id) {
            tables.forget(id, &journal.summary);
        }
        Box::pin(ready(Ok(())))
    }
}

#[derive(Debug, Default)]
struct Tables {
    journals: HashMap<SessionId, Journal>,
    ids: BTreeSet<SessionId>,
    owners: BTreeSet<(Owner, SessionId)>,
    working: BTreeSet<SessionId>,
    deadlines: BTreeSet<(Timestamp, SessionId)>,
}

#[derive(Debug)]
struct Journal {
    length: usize,
    bytes: Vec<u8>,
    summary: Summary,
}

impl Tables {
    fn append(&mut self, append: Append, bytes: &[u8]) -> Result<(), StoreError> {
        let Append { id, length, events, summary, replace } = append;
        let known = self.journals.get(&id).map_or(0, |journal| journal.length);
        if known != length {
            return Err(StoreError::Conflict(id));
        }
        match self.journals.get_mut(&id) {
            None => {
                self.remember(id, &summary);
                let bytes = bytes.to_vec();
                self.journals.insert(id, Journal { length: events.len(), bytes, summary });
            }
            Some(journal) => {
                if replace {
                    journal.bytes = bytes.to_vec();
                    journal.length = events.len();
                } else {
                    journal.bytes.extend_from_slice(bytes);
                    journal.length += events.len();
                }
                let before = std::mem::replace(&mut journal.summary, summary);
                let summary = &journal.summary;
                // Whose it is never changes, so only these two have to follow.
                if summary.state.is_working() != before.state.is_working() {
                    if summary.state.is_working() {
                        self.working.insert(id);
                    } else {
                        self.working.remove(&id);
                    }
                }
                if summary.deadline != before.deadline {
                    if let Some(deadline) = before.deadline {
                        self.deadlines.remove(&(deadline, id));
                    }
                    if let Some(deadline) = summary.deadline {
                        self.deadlines.insert((deadline, id));
                    }
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, id: SessionId, summary: &Summary) {
        self.ids.insert(id);
        self.owners.insert((summary.owner.clone(), id));
        if summary.state.is_working() {
            self.working.insert(id);
        }
        if let Some(deadline) = summary.deadline {
            self.deadlines.insert((deadline, id));
        }
    }

    fn forget(&mut self, id: SessionId, summary: &Summary) {
        self.ids.remove(&id);
        self.owners.remove(&(summary.owner.clone(), id));
        self.working.remove(&id);
        if let Some(deadline) = summary.deadline {
            self.deadlines.remove(&(deadline, id));
        }
    }

    fn list(&self, filter: &Filter, page: Page) -> Vec<Listed> {
        let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let ids: Box<dyn Iterator<Item = SessionId> + '_> = match &filter.owner {
            Some(owner) => {
                let first = match page.after {
                    Some(id) => Bound::Excluded((owner.clone(), id)),
                    None => Bound::Included((owner.clone(), SessionId::from_random(0))),
                };
                let last = Bound::Included((owner.clone(), LAST));
                Box::new(self.owners.range((first, last)).map(|(_, id)| *id))
            }
            None if filter.phase == Phase::Working => {
                Box::new(self.working.range((after, Bound::Unbounded)).copied())
            }
            None => Box::new(self.ids.range((after, Bound::Unbounded)).copied()),
        };
        ids.filter_map(|id| Some(Listed { id, summary: self.journals.get(&id)?.summary.clone() }))
            .filter(|listed| filter.phase.covers(listed.summary.state))
            .take(page.most)
            .collect()
    }
}

/// The greatest id there can be.
const LAST: SessionId = SessionId::from_random(u128::MAX);
