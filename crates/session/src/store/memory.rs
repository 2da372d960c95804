//! A store that forgets everything when the process ends.

use std::collections::BTreeSet;
use std::future::ready;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::{Append, Census, Filter, Listed, Page, Phase, Reply, Store, StoreError, Summary};
use crate::event::Event;
use crate::{Owner, SessionId, Timestamp};

/// Keeps journals in memory, as they are: nothing is written that nobody will read back.
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
        let events = tables.journals.get(&id).map(|journal| journal.events.clone());
        Box::pin(ready(Ok(events.unwrap_or_default())))
    }

    fn append(&self, append: Append) -> Reply<'_, ()> {
        Box::pin(ready(self.lock().append(append)))
    }

    fn list(&self, filter: Filter, page: Page) -> Reply<'_, Vec<Listed>> {
        Box::pin(ready(Ok(self.lock().list(&filter, page))))
    }

    fn due(&self, time: Timestamp, most: usize) -> Reply<'_, Vec<SessionId>> {
        let tables = self.lock();
        let due = tables.deadlines.range(..=(time, LAST)).take(most).map(|(_, id)| *id).collect();
        Box::pin(ready(Ok(due)))
    }

    fn census(&self) -> Reply<'_, Census> {
        let Tables { journals, working, ended, .. } = &*self.lock();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let census = Census::of(count(journals.len()), count(working.len()), count(*ended));
        Box::pin(ready(Ok(census)))
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
    /// How many are over.
    ended: usize,
    deadlines: BTreeSet<(Timestamp, SessionId)>,
}

#[derive(Debug)]
struct Journal {
    events: Vec<Event>,
    summary: Summary,
}

impl Tables {
    fn append(&mut self, append: Append) -> Result<(), StoreError> {
        let Append { id, length, events, summary, replace } = append;
        match self.journals.get_mut(&id) {
            None if length > 0 => return Err(StoreError::Conflict(id)),
            Some(journal) if journal.events.len() != length => {
                return Err(StoreError::Conflict(id));
            }
            None => {
                self.remember(id, &summary);
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
                // Whose it is never changes, so only these have to follow.
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
        self.ended += usize::from(summary.state.is_final());
        if let Some(deadline) = summary.deadline {
            self.deadlines.insert((deadline, id));
        }
    }

    fn forget(&mut self, id: SessionId, summary: &Summary) {
        self.ids.remove(&id);
        self.owners.remove(&(summary.owner.clone(), id));
        self.working.remove(&id);
        self.ended -= usize::from(summary.state.is_final());
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
