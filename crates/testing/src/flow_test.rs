//! A server and a client in one process, with a clock that skips.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use mcp_flow_client::Client;
use mcp_flow_engine::{
    Clock, Engine, EngineError, SessionLimits, SessionStatus, StartRequest, View,
};
use mcp_flow_interaction::{Interaction, IntoFlows};
use mcp_flow_server::Server;
use mcp_flow_session::store::{Filter, Listed, PageRequest, Phase};
use mcp_flow_session::{MemoryStore, Owner, SessionId, Store, Timestamp};
use mcp_flow_stdio::client::in_process;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::store::TestStore;
use crate::{FlowTestError, SkipDuration, TestClock, TestedSession};

/// A server with flows and a client of it, in this process.
///
/// ```
/// # use mcp_flow_engine::{Flow, FlowResult};
/// # use mcp_flow_interaction::OfferedFlow;
/// # use mcp_flow_session::question::confirm;
/// use std::time::Duration;
///
/// use mcp_flow_testing::FlowTest;
/// use serde_json::json;
///
/// # #[derive(serde::Deserialize)]
/// # struct NoParams {}
/// async fn remind(flow: Flow, _: NoParams) -> FlowResult<&'static str> {
///     flow.sleep(Duration::from_secs(3 * 24 * 60 * 60)).await?;
///     let paid = flow.ask("paid", confirm("Did you pay?")).await?;
///     Ok(if paid { "thanks" } else { "reminded" })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_testing::FlowTestError> {
/// let test = FlowTest::new(OfferedFlow::new("remind", remind)).await?;
/// let session = test.start("remind", json!({})).await?;
/// test.advance("3 days").await?;
/// session.answer_all(json!({"paid": true})).await?;
/// assert_eq!(session.result().await?, json!("thanks"));
/// # Ok(())
/// # }
/// ```
pub struct FlowTest {
    interaction: Interaction,
    server: Server,
    client: Client,
    clock: Arc<TestClock>,
    pub(crate) store: Arc<TestStore>,
    failures: Arc<StepFailures>,
}

impl FlowTest {
    /// Serves flows: one, or several in a list such as `flows![…]`.
    pub async fn new(flows: impl IntoFlows) -> Result<Self, FlowTestError> {
        Self::builder(flows).build().await
    }

    /// Returns a builder with other limits or another start of time.
    pub fn builder(flows: impl IntoFlows) -> FlowTestBuilder {
        let interaction = Interaction::builder().flows(flows);
        FlowTestBuilder { interaction: Box::new(interaction), limits: limits(), start: START }
    }

    /// Returns the client, which is connected to the server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the engine that runs the flows.
    pub fn engine(&self) -> &Engine {
        self.interaction.engine()
    }

    /// Returns the time by the clock.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Starts a session, with parameters as a JSON object, and runs its flow until it asks, sleeps or
    /// ends.
    pub async fn start(
        &self,
        flow: &str,
        params: Value,
    ) -> Result<TestedSession<'_>, FlowTestError> {
        let params = match params {
            Value::Object(params) => params,
            other => return Err(FlowTestError::BadParams(other)),
        };
        let start = StartRequest::new(flow, Owner::local()).params(params);
        let id = self.engine().start(start).await?.id;
        let session = self.session(id);
        self.settle(id, &Owner::local()).await?;
        Ok(session)
    }

    /// Returns the session of this id, such as one that the client has started.
    pub fn session(&self, id: SessionId) -> TestedSession<'_> {
        TestedSession::new(self, id)
    }

    /// Lets the next runs of a step or lookup fail: this many times, then it works again.
    pub fn fail_step(&self, key: &str, times: usize, error: impl Into<String>) {
        self.failures.0.lock().insert(key.to_owned(), (times, error.into()));
    }

    /// Advances the clock. Every timer and deadline on the way is due at its time, one after the
    /// other, and flows run before the next one.
    pub async fn advance(&self, by: impl SkipDuration) -> Result<(), FlowTestError> {
        let target = self.now().after(by.skip_duration()?);
        // Of a session that no program can wake, the same timer stays due.
        let mut seen = HashSet::new();
        loop {
            let live = self.settle_all().await?;
            let due = live.iter().filter_map(|listed| Some((listed.summary.due()?, listed.id)));
            let next = due.filter(|due| due.0 <= target && !seen.contains(due)).min();
            let Some(next) = next else { break };
            seen.insert(next);
            self.clock.set(next.0.max(self.now()));
            self.engine().maintain().await?;
        }
        self.clock.set(target);
        self.engine().maintain().await?;
        self.settle_all().await.map(drop)
    }

    /// Stops the server, as at the end of its process.
    pub async fn shutdown(&self) {
        self.client.close().await;
        self.engine().shutdown().await;
    }

    /// Waits until all flows ask, sleep or have ended. Returns the live sessions.
    async fn settle_all(&self) -> Result<Vec<Listed>, FlowTestError> {
        for listed in self.list(Phase::Working).await? {
            match self.settle(listed.id, &listed.summary.owner).await {
                Ok(_) | Err(FlowTestError::Engine(EngineError::NotFound)) => {}
                Err(error) => return Err(error),
            }
        }
        self.list(Phase::Live).await
    }

    async fn list(&self, phase: Phase) -> Result<Vec<Listed>, FlowTestError> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let filter = Filter { phase, ..Filter::default() };
            let page = self.engine().list_all(filter, PageRequest { after, most: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(all) };
            after = Some(last.id);
            all.extend(page);
        }
    }

    /// Waits until a flow asks, sleeps or has ended.
    pub(crate) async fn settle(&self, id: SessionId, owner: &Owner) -> Result<View, FlowTestError> {
        let mut notices = self.engine().subscribe(id, owner).await?;
        let began = Instant::now();
        loop {
            let view = self.engine().view(id, owner).await?;
            let is_working = matches!(view.status, SessionStatus::Working(_)) && !view.is_asleep();
            if !is_working {
                return Ok(view);
            }
            // With a timer beside it, a step may be meant to take longer than the timer.
            let limit = if view.wakes.is_some() { TIMED_STEP } else { LONGEST_STEP };
            if timeout_at(began + limit, notices.next()).await.is_err() {
                if view.wakes.is_some() {
                    return Ok(view);
                }
                return Err(FlowTestError::Stalled { flow: view.flow, seconds: limit.as_secs() });
            }
        }
    }
}

impl std::fmt::Debug for FlowTest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FlowTest").field("clock", &self.clock).finish_non_exhaustive()
    }
}

/// Builds a [`FlowTest`].
#[must_use]
#[derive(Debug)]
pub struct FlowTestBuilder {
    interaction: Box<mcp_flow_interaction::InteractionBuilder>,
    limits: SessionLimits,
    start: Timestamp,
}

impl FlowTestBuilder {
    /// Changes the limits of sessions. They are those of a server, except that sessions are replayed
    /// at every turn and that results are retained for ever.
    pub fn limits(mut self, change: impl FnOnce(&mut SessionLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Sets the time at which the clock begins. Defaults to 2024-01-01.
    pub fn time(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// Builds the server, and connects the client.
    pub async fn build(self) -> Result<FlowTest, FlowTestError> {
        let store = TestStore::new(Arc::new(MemoryStore::new()));
        let clock = Arc::new(TestClock::new(self.start));
        self.build_on(store, clock).await
    }

    pub(crate) async fn build_on(
        self,
        store: Arc<TestStore>,
        clock: Arc<TestClock>,
    ) -> Result<FlowTest, FlowTestError> {
        let failures = Arc::<StepFailures>::default();
        let (hook, time) = (Arc::clone(&failures), Arc::clone(&clock) as Arc<dyn Clock>);
        let interaction = self
            .interaction
            .store(Arc::clone(&store) as Arc<dyn Store>)
            .limits(self.limits)
            .engine(move |engine| engine.clock(time).step_hook(Arc::new(move |key| hook.take(key))))
            .build();
        let server = interaction.add_to(Server::builder("flow test", "1.0.0")).build();
        let server = server.map_err(|error| FlowTestError::Build(error.to_string()))?;
        server.served_at("http://localhost");
        let client = Client::builder().connect(in_process(&server)).await?;
        interaction.engine().start_maintenance();
        Ok(FlowTest { interaction, server, client, clock, store, failures })
    }
}

/// Steps that have to fail, by key: how many times, and the error.
#[derive(Debug, Default)]
struct StepFailures(Mutex<HashMap<String, (usize, String)>>);

impl StepFailures {
    fn take(&self, key: &str) -> Result<(), String> {
        match self.0.lock().get_mut(key) {
            Some((times, error)) if *times > 0 => {
                *times -= 1;
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

fn limits() -> SessionLimits {
    let mut limits = SessionLimits { linger: Duration::ZERO, ..SessionLimits::default() };
    limits.bounds.retention = Duration::MAX;
    limits
}

/// 2024-01-01T00:00:00Z.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_704_067_200_000);

/// Longest real time that a step may take.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// Real time after which a step counts as longer than the timer beside it.
const TIMED_STEP: Duration = Duration::from_secs(1);

/// Sessions read from the store at a time.
const PAGE: usize = 1000;
