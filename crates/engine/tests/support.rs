//! Test support: a manual clock, failing and slow stores, sample flows.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_engine::{AnswerReply, OpenQuestion, SessionStatus, StartRequest, View};
use mcp_flow_engine::{Clock, Definition, Engine, EngineBuilder, Flow, FlowResult, SessionLimits};
use mcp_flow_session::event::{Ending, FlowFault, SessionEnded};
use mcp_flow_session::question::{confirm, date, integer, text};
use mcp_flow_session::store::{Append, Census, Filter, Listed, PageRequest, StoreFuture};
use mcp_flow_session::{JournalEvent, MemoryStore, Owner, SessionId, Store, StoreError, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

/// Waits for something that should happen at once; panics after a minute.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(60), work).await;
    waited.unwrap_or_else(|_| panic!("waited a minute for {what}"))
}

/// Clock that is set by the test.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000_000)))
    }

    pub(crate) fn forward(&self, duration: Duration) {
        self.0.fetch_add(u64::try_from(duration.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) fn back(&self, duration: Duration) {
        self.0.fetch_sub(u64::try_from(duration.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Clock that follows the runtime's, which a test may pause.
#[derive(Debug)]
pub(crate) struct RuntimeClock(tokio::time::Instant);

impl RuntimeClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(tokio::time::Instant::now()))
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000).after(self.0.elapsed())
    }
}

/// Store that fails after a number of writes, as if the process had been killed.
#[derive(Debug)]
pub(crate) struct CrashStore {
    pub kept: Arc<MemoryStore>,
    left: AtomicUsize,
    /// Sessions that a newer version of the program wrote.
    pub newer: std::sync::Mutex<HashSet<SessionId>>,
}

impl CrashStore {
    pub(crate) fn stopping_after(kept: &Arc<MemoryStore>, writes: usize) -> Arc<Self> {
        let (kept, left) = (Arc::clone(kept), AtomicUsize::new(writes));
        Arc::new(Self { kept, left, newer: std::sync::Mutex::default() })
    }
}

impl Store for CrashStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        if self.newer.lock().unwrap().contains(&id) {
            return Box::pin(std::future::ready(Err(StoreError::Newer(id))));
        }
        self.kept.read(id)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        let left =
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => self.kept.append(append),
            Err(_) => Box::pin(std::future::ready(Err(StoreError::Closed))),
        }
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

/// Store that holds writes back until released. They are written even if the caller has gone away.
#[derive(Debug, Default)]
pub(crate) struct SlowStore {
    kept: MemoryStore,
    held: std::sync::Mutex<Option<Vec<Held>>>,
}

/// A write held back, and the channel of its caller.
type Held = (Append, oneshot::Sender<()>);

impl SlowStore {
    pub(crate) fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    pub(crate) async fn release(&self) {
        let held = self.held.lock().unwrap().take();
        for (append, done) in held.unwrap_or_default() {
            self.kept.append(append).await.unwrap();
            // The caller may have gone away.
            let _ = done.send(());
        }
    }
}

impl Store for SlowStore {
    fn read(&self, id: SessionId) -> StoreFuture<'_, Vec<JournalEvent>> {
        self.kept.read(id)
    }

    fn append(&self, append: Append) -> StoreFuture<'_, ()> {
        match self.held.lock().unwrap().as_mut() {
            Some(held) => {
                let (done, written) = oneshot::channel();
                held.push((append, done));
                Box::pin(async { written.await.map_err(|_| StoreError::Closed) })
            }
            None => self.kept.append(append),
        }
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

#[derive(Deserialize)]
pub(crate) struct NoParams {}

/// The wizard of the protocol: asks for a name, then an e-mail address.
pub(crate) async fn register(flow: Flow, _: NoParams) -> FlowResult<Value> {
    flow.progress(1.0, 2.0, "Step 1 of 2".to_owned());
    let name = flow.ask("name", text("Enter name").length(2..=50)).await?;
    flow.progress(2.0, 2.0, None);
    let email = flow.ask("email", text("Enter email").pattern("^[^@ ]+@[^@ ]+$")).await?;
    flow.summary(format!("{name} is registered"));
    Ok(json!({"name": name, "email": email}))
}

/// A flow with dependent questions, a lookup and a confirmation.
pub(crate) async fn book_trip(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let city = flow.ask("city", text("Where to?").length(2..=50)).await?;
    let day = flow.ask("day", date("Which day?").after(flow.today())).await?;
    let offers: Vec<String> = flow
        .lookup("search", || async { Ok::<_, String>(vec![format!("{city} Inn"), "Tent".into()]) })
        .await?;
    let offer =
        flow.ask("offer", mcp_flow_session::question::choice("Which offer?", &offers)).await?;
    let nights = flow.ask("nights", integer("How many nights?").range(1..=30)).await?;
    if !flow.ask("sure", confirm("Book it?")).await? {
        return flow.decline("nothing booked");
    }
    let receipt: String =
        flow.step("book", || async { Ok::<_, String>(format!("{offer} x {nights}")) }).await?;
    Ok(json!({"receipt": receipt, "day": day}))
}

pub(crate) fn builder(store: Arc<dyn Store>) -> EngineBuilder {
    Engine::builder(store)
        .flow(Definition::new("register", register))
        .flow(Definition::new("book_trip", book_trip))
}

pub(crate) fn engine() -> Engine {
    builder(Arc::new(MemoryStore::new())).build()
}

/// Limits under which a session is evicted after each turn, and replayed at the next.
pub(crate) fn no_linger() -> SessionLimits {
    SessionLimits { linger: Duration::ZERO, ..SessionLimits::default() }
}

pub(crate) fn me() -> Owner {
    Owner::local()
}

pub(crate) fn start(flow: &str) -> StartRequest {
    StartRequest::new(flow, me())
}

pub(crate) fn params(value: Value) -> Map<String, Value> {
    let Value::Object(params) = value else { panic!("parameters are an object") };
    params
}

#[track_caller]
pub(crate) fn open(view: &View) -> &OpenQuestion {
    match &view.status {
        SessionStatus::Waiting(open) => open,
        other => panic!("not waiting: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn ended(view: &View) -> &SessionEnded {
    match &view.status {
        SessionStatus::Ended(ended) => ended,
        other => panic!("not over: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn result(view: &View) -> Value {
    match &ended(view).ending {
        Ending::Completed { success: true, data, .. } => data.clone(),
        other => panic!("no result: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn fault(view: &View) -> &FlowFault {
    match &ended(view).ending {
        Ending::Failed(fault) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

/// Answers a question; the answer must be accepted.
pub(crate) async fn answer(engine: &Engine, id: SessionId, value: Value) -> View {
    match engine.respond(id, &me(), value.into()).await {
        Ok(AnswerReply::Accepted(view)) => view,
        other => panic!("not accepted: {other:?}"),
    }
}
