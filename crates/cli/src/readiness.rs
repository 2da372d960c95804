//! Whether a server can do its work: whether what it keeps can be written.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow::observability::audit::Audit;
use mcp_flow::session::Store;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// What the work depends on. A handle; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    store: Option<Arc<dyn Store>>,
    audit: Option<Audit>,
    /// What was found out last, and when. Everyone may ask, so the disk is not asked each time.
    known: Arc<Mutex<Option<Known>>>,
}

type Known = (Instant, Result<(), String>);

impl Readiness {
    pub(crate) fn new(store: Option<Arc<dyn Store>>, audit: Option<Audit>) -> Self {
        Self { store, audit, known: Arc::default() }
    }

    /// Nothing, or what does not work; without the reason, which is for the log.
    pub(crate) async fn check(self) -> Result<(), String> {
        if self.audit.as_ref().is_some_and(|audit| !audit.is_working()) {
            return Err("the audit log cannot be written".to_owned());
        }
        let Some(store) = &self.store else { return Ok(()) };
        let mut known = self.known.lock().await;
        if let Some((at, found)) = &*known
            && at.elapsed() < FRESH
        {
            return found.clone();
        }
        let found = store.probe().await.map_err(|error| {
            let problem = "conversations cannot be written";
            tracing::error!(%error, problem);
            problem.to_owned()
        });
        *known = Some((Instant::now(), found.clone()));
        found
    }
}

/// How long what was found out is good for.
const FRESH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::Readiness;
    use mcp_flow::session::store::{
        Append, Census, Filter, Listed, PageRequest, Store, StoreError, StoreFuture,
    };
    use mcp_flow::session::{JournalEvent, SessionId, Timestamp};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A store on a disk that is full, which counts how often it was asked.
    #[derive(Debug, Default)]
    struct Full(AtomicUsize);

    impl Full {
        fn refuse<T: Send + 'static>(&self) -> StoreFuture<'_, T> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Err(StoreError::Full) })
        }
    }

    impl Store for Full {
        fn read(&self, _: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
            self.refuse()
        }

        fn append(&self, _: Append) -> StoreFuture<'_, ()> {
            self.refuse()
        }

        fn list(&self, _: Filter, _: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
            self.refuse()
        }

        fn due(&self, _: Timestamp, _: usize) -> StoreFuture<'_, Vec<SessionId>> {
            self.refuse()
        }

        fn erase(&self, _: SessionId) -> StoreFuture<'_, ()> {
            self.refuse()
        }

        fn census(&self) -> StoreFuture<'_, Census> {
            self.refuse()
        }
    }

    /// Issue (observability): readiness tells the truth, and asking often costs little.
    #[tokio::test]
    async fn a_store_that_cannot_be_written_is_not_ready() {
        let store = Arc::new(Full::default());
        let readiness = Readiness::new(Some(store.clone()), None);
        for _ in 0..100 {
            assert!(readiness.clone().check().await.unwrap_err().contains("cannot be written"));
        }
        assert!(store.0.load(Ordering::Relaxed) < 10, "it is asked once in a second");
        assert_eq!(Readiness::new(None, None).check().await, Ok(()));
    }
}
