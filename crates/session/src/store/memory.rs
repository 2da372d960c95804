//! Store in memory.

use std::collections::BTreeSet;
use std::future::ready;
use std::ops::Bound;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{
    Append, Census, Filter, Listed, PageRequest, Phase, Store, StoreError, StoreFuture, Summary,
};
use crate::event::JournalEvent;
use crate::{Owner, SessionId, Timestamp};

/// Stores journals in memory; they are lost when the process ends.
///
/// Several engines may share one, to simulate several processes.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of sessions, including tombstones.
    pub fn len(&self) -> usize {
        self.tables.lock().journals.len()
    }

    /// Returns whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Store for MemoryStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        let tables = self.tables.lock();
        let events = tables.journals.get(&id).map(|journal| journal.events.clone());
        Box::pin(ready(Ok(events.unwrap_or_default())))
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        Box::pin(ready(self.tables.lock().append(append)))
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        Box::pin(ready(Ok(self.tables.lock().list(&filter, page))))
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        let tables = self.tables.lock();
        let due = tables.deadlines.range(..=(time, LAST)).take(most).map(|(_, id)| *id).collect();
        Box::pin(ready(Ok(due)))
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        let Tables { journals, working, ended, .. } = &*self.tables.lock();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let census = Census::of(count(journals.len()), count(working.len()), count(*ended));
        Box::pin(ready(Ok(census)))
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        let mut tables = self.tables.lock();
        if let Some(journal) = tables.journals.remove(&id) {
            tables.unindex(id, &journal.summary);
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
    /// Number of ended sessions.
    ended: usize,
    deadlines: BTreeSet<(Timestamp, SessionId)>,
}

#[derive(Debug)]
struct Journal {
    events: Vec<JournalEvent>,
    summary: Summary,
}

impl Tables {
    fn append(&mut self, append: Append) -> Result<(), StoreError> {
        let Append { id, length, events, summary, replace, fence: _ } = append;
        match self.journals.get_mut(&id) {
            None if length > 0 => return Err(StoreError::Conflict(id)),
            Some(journal) if journal.events.len() != length || journal.summary.state.is_final() => {
                return Err(StoreError::Conflict(id));
            }
            None => {
                self.index(id, &summary);
                self.journals.insert(id, Journal { events, summary });
            }
            Some(journal) => {
                if replace {
                    journal.events = events;
                } else {
                    journal.events.extend(events);
                }
                let before = std::mem::replace(&mut journal.summary, summary);
                let summary = &journal.summary;
                // The owner never changes, so only these indexes have to be updated.
                if summary.state.is_final() && !before.state.is_final() {
                    self.ended += 1;
                }
                if summary.state.is_working() != before.state.is_working() {
                    if summary.state.is_working() {
                        self.working.insert(id);
                    } else {
                        self.working.remove(&id);
                    }
                }
                if summary.due() != before.due() {
                    if let Some(due) = before.due() {
                        self.deadlines.remove(&(due, id));
                    }
                    if let Some(due) = summary.due() {
                        self.deadlines.insert((due, id));
                    }
                }
            }
        }
        Ok(())
    }

    fn index(&mut self, id: SessionId, summary: &Summary) {
        self.ids.insert(id);
        self.owners.insert((summary.owner.clone(), id));
        if summary.state.is_working() {
            self.working.insert(id);
        }
        self.ended += usize::from(summary.state.is_final());
        if let Some(due) = summary.due() {
            self.deadlines.insert((due, id));
        }
    }

    fn unindex(&mut self, id: SessionId, summary: &Summary) {
        self.ids.remove(&id);
        self.owners.remove(&(summary.owner.clone(), id));
        self.working.remove(&id);
        self.ended -= usize::from(summary.state.is_final());
        if let Some(due) = summary.due() {
            self.deadlines.remove(&(due, id));
        }
    }

    fn list(&self, filter: &Filter, page: PageRequest) -> Vec<Listed> {
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

/// Greatest id.
const LAST: SessionId = SessionId::from_random(u128::MAX);
