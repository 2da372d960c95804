//! Store of a test: another store, with the whole history of each session, and able to crash.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use mcp_flow_session::store::{Append, Census, Filter, Listed, PageRequest, StoreFuture};
use mcp_flow_session::{JournalEvent, SessionId, Store, StoreError, Timestamp};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Store that fails after a number of appends, as if the process had been killed.
#[derive(Debug)]
pub(crate) struct TestStore {
    kept: Arc<dyn Store>,
    /// Every event of each session: the end of one erases those before it in the store (C-11).
    histories: Mutex<HashMap<SessionId, Vec<JournalEvent>>>,
    appends: AtomicUsize,
    most: usize,
    crashed: CancellationToken,
}

impl TestStore {
    pub(crate) fn new(kept: Arc<dyn Store>) -> Arc<Self> {
        Self::stopping_after(kept, usize::MAX)
    }

    pub(crate) fn stopping_after(kept: Arc<dyn Store>, most: usize) -> Arc<Self> {
        let (appends, crashed) = (AtomicUsize::new(0), CancellationToken::new());
        Arc::new(Self { kept, histories: Mutex::default(), appends, most, crashed })
    }

    /// Returns the number of appends so far.
    pub(crate) fn appends(&self) -> usize {
        self.appends.load(Ordering::SeqCst)
    }

    /// Waits for the crash.
    pub(crate) async fn crashed(&self) {
        self.crashed.cancelled().await;
    }

    /// Returns every event of a session that this store appended.
    pub(crate) fn history(&self, id: SessionId) -> Vec<JournalEvent> {
        self.histories.lock().get(&id).cloned().unwrap_or_default()
    }
}

impl Store for TestStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        self.kept.read(id)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        if self.crashed.is_cancelled() || self.appends.fetch_add(1, Ordering::SeqCst) >= self.most {
            self.crashed.cancel();
            return Box::pin(ready(Err(StoreError::Closed)));
        }
        Box::pin(async move {
            let (id, events) = (append.id, append.events.clone());
            self.kept.append(append).await?;
            self.histories.lock().entry(id).or_default().extend(events);
            Ok(())
        })
    }

    fn list(&self, filter: Filter, page: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
        self.kept.list(filter, page)
    }

    fn due(&self, time: Timestamp, most: usize) -> StoreFuture<'_, Vec<SessionId>> {
        self.kept.due(time, most)
    }

    fn census(&self) -> StoreFuture<'_, Census> {
        self.kept.census()
    }

    fn erase(&self, id: SessionId) -> StoreFuture<'_, ()> {
        self.kept.erase(id)
    }
}
