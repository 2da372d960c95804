//! Readiness: whether the store and the audit log can be written.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow::engine::Engine;
use mcp_flow::observability::audit::Audit;
use mcp_flow::session::Store;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Readiness check of a server. A handle; clones share the last result.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    store: Option<Arc<dyn Store>>,
    audit: Option<Audit>,
    engine: Option<Engine>,
    /// Anyone may ask, so the disk is not probed each time.
    last: Arc<Mutex<Option<LastCheck>>>,
}

/// Last result.
#[derive(Debug)]
struct LastCheck {
    at: Instant,
    /// Writes of sessions that had failed by then. One that fails later contradicts the result.
    failed_writes: u64,
    result: Result<(), String>,
}

impl Readiness {
    pub(crate) fn new(
        store: Option<Arc<dyn Store>>,
        audit: Option<Audit>,
        engine: Option<Engine>,
    ) -> Self {
        Self { store, audit, engine, last: Arc::default() }
    }

    /// Returns what does not work. The cause is logged and not returned.
    pub(crate) async fn check(self) -> Result<(), String> {
        if self.audit.as_ref().is_some_and(|audit| !audit.is_working()) {
            return Err("cannot write the audit log".to_owned());
        }
        let Some(store) = &self.store else { return Ok(()) };
        let mut last = self.last.lock().await;
        let failed_writes = self.engine.as_ref().map_or(0, Engine::failed_writes);
        if let Some(last) = &*last
            && last.at.elapsed() < MAX_AGE
            && (last.result.is_err() || last.failed_writes == failed_writes)
        {
            return last.result.clone();
        }
        let result = store.probe().await.map_err(|error| {
            let problem = "cannot write to the session store";
            tracing::error!(%error, problem);
            problem.to_owned()
        });
        *last = Some(LastCheck { at: Instant::now(), failed_writes, result: result.clone() });
        result
    }
}

/// Time for which a result is reused.
const MAX_AGE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::Readiness;
    use mcp_flow::engine::{Definition, Engine, Flow, FlowResult, StartRequest};
    use mcp_flow::question::text;
    use mcp_flow::session::store::{
        Append, Census, Filter, Listed, PageRequest, Store, StoreError, StoreFuture,
    };
    use mcp_flow::session::{JournalEvent, Owner, SessionId, Timestamp};
    use serde_json::{Map, Value};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Store on a full disk, which counts its calls.
    #[derive(Debug, Default)]
    struct Full(AtomicUsize);

    impl Full {
        /// A store that is full after its first probe.
        fn soon() -> Self {
            Self(AtomicUsize::new(LAST_GOOD))
        }

        fn refuse<T: Send + 'static>(&self) -> StoreFuture<'_, T> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Err(StoreError::Full) })
        }
    }

    const LAST_GOOD: usize = usize::MAX / 2;

    impl Store for Full {
        fn read(&self, _: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn append(&self, _: Append) -> StoreFuture<'_, ()> {
            self.refuse()
        }

        fn list(&self, _: Filter, _: PageRequest) -> StoreFuture<'_, Vec<Listed>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn due(&self, _: Timestamp, _: usize) -> StoreFuture<'_, Vec<SessionId>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn erase(&self, _: SessionId) -> StoreFuture<'_, ()> {
            self.refuse()
        }

        fn census(&self) -> StoreFuture<'_, Census> {
            self.refuse()
        }

        fn probe(&self) -> StoreFuture<'_, ()> {
            let is_full = self.0.fetch_add(1, Ordering::Relaxed) != LAST_GOOD;
            Box::pin(async move { if is_full { Err(StoreError::Full) } else { Ok(()) } })
        }
    }

    /// A session that could not be written contradicts the last result.
    #[tokio::test]
    async fn a_failed_write_ends_readiness_at_once() {
        let store = Arc::new(Full::soon());
        let ask = async |flow: Flow, _: Map<String, Value>| -> FlowResult<String> {
            flow.ask("name", text("Name?")).await
        };
        let engine = Engine::builder(store.clone()).flow(Definition::new("ask", ask)).build();
        let readiness = Readiness::new(Some(store), None, Some(engine.clone()));
        assert_eq!(readiness.clone().check().await, Ok(()));
        let start = StartRequest::new("ask", Owner::new("ada"));
        assert!(engine.start(start).await.is_err(), "the store is full");
        assert!(readiness.check().await.is_err());
    }

    /// A store that fails is not ready, and frequent checks do not probe it each time.
    #[tokio::test]
    async fn a_store_that_cannot_be_written_is_not_ready() {
        let store = Arc::new(Full::default());
        let readiness = Readiness::new(Some(store.clone()), None, None);
        for _ in 0..100 {
            assert!(readiness.clone().check().await.unwrap_err().contains("cannot write"));
        }
        assert!(store.0.load(Ordering::Relaxed) < 10, "it is probed once per second");
        assert_eq!(Readiness::new(None, None, None).check().await, Ok(()));
    }
}
