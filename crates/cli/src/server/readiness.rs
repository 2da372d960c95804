//! Readiness: whether the store and the audit log can be written.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow::observability::audit::Audit;
use mcp_flow::session::Store;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Readiness check of a server. A handle; clones share the last result.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    store: Option<Arc<dyn Store>>,
    audit: Option<Audit>,
    /// Last result and its time. Anyone may ask, so the disk is not probed each time.
    last: Arc<Mutex<Option<LastCheck>>>,
}

type LastCheck = (Instant, Result<(), String>);

impl Readiness {
    pub(crate) fn new(store: Option<Arc<dyn Store>>, audit: Option<Audit>) -> Self {
        Self { store, audit, last: Arc::default() }
    }

    /// Returns what does not work. The cause is logged and not returned.
    pub(crate) async fn check(self) -> Result<(), String> {
        if self.audit.as_ref().is_some_and(|audit| !audit.is_working()) {
            return Err("cannot write the audit log".to_owned());
        }
        let Some(store) = &self.store else { return Ok(()) };
        let mut last = self.last.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < MAX_AGE
        {
            return result.clone();
        }
        let result = store.probe().await.map_err(|error| {
            let problem = "cannot write to the session store";
            tracing::error!(%error, problem);
            problem.to_owned()
        });
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

/// Time for which a result is reused.
const MAX_AGE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::Readiness;
    use mcp_flow::session::store::{
        Append, Census, Filter, Listed, PageRequest, Store, StoreError, StoreFuture,
    };
    use mcp_flow::session::{JournalEvent, SessionId, Timestamp};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Store on a full disk, which counts its calls.
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

    /// A store that fails is not ready, and frequent checks do not probe it each time.
    #[tokio::test]
    async fn a_store_that_cannot_be_written_is_not_ready() {
        let store = Arc::new(Full::default());
        let readiness = Readiness::new(Some(store.clone()), None);
        for _ in 0..100 {
            assert!(readiness.clone().check().await.unwrap_err().contains("cannot write"));
        }
        assert!(store.0.load(Ordering::Relaxed) < 10, "it is probed once per second");
        assert_eq!(Readiness::new(None, None).check().await, Ok(()));
    }
}
