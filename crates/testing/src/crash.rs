//! Crashes of the server at every append of a session.

use std::sync::Arc;

use mcp_flow_engine::{SessionStatus, View};
use mcp_flow_interaction::IntoFlows;
use mcp_flow_session::event::Ending;
use mcp_flow_session::store::{Filter, PageRequest};
use mcp_flow_session::{JournalEvent, MemoryStore, Owner, SessionId, Store};
use serde_json::Value;

use crate::flow_test::START;
use crate::session::describe_ending;
use crate::store::TestStore;
use crate::{Answers, FlowTest, FlowTestError, TestClock};

/// A session from its start to its end: parameters, an answer to each question, and signals. Time
/// passes whenever the flow sleeps.
#[derive(Clone, Debug)]
#[must_use]
pub struct Script {
    flow: String,
    params: Value,
    answers: Answers,
    signals: Answers,
    failures: Vec<(String, usize, String)>,
}

impl Script {
    /// Creates a script that starts a flow, with parameters as a JSON object.
    pub fn new(flow: impl Into<String>, params: Value) -> Self {
        let (answers, signals) = (Answers::default(), Answers::default());
        Self { flow: flow.into(), params, answers, signals, failures: Vec::new() }
    }

    /// Sets the answers.
    pub fn answers(mut self, answers: impl Into<Answers>) -> Self {
        self.answers = answers.into();
        self
    }

    /// Sets the signals, as a table like the answers. Each is sent when the flow waits for it.
    pub fn signals(mut self, signals: impl Into<Answers>) -> Self {
        self.signals = signals.into();
        self
    }

    /// Lets a step fail a number of times, in each process anew.
    pub fn fail_step(mut self, key: &str, times: usize, error: &str) -> Self {
        self.failures.push((key.to_owned(), times, error.to_owned()));
        self
    }

    /// Runs a session of which there may be a part, to its end.
    async fn run(
        &self,
        test: &FlowTest,
        found: Option<SessionId>,
    ) -> Result<Ending, FlowTestError> {
        for (key, times, error) in &self.failures {
            test.fail_step(key, *times, error.clone());
        }
        let session = match found {
            Some(id) => test.session(id),
            None => test.start(&self.flow, self.params.clone()).await?,
        };
        loop {
            let view = session.view().await?;
            if let SessionStatus::Ended(ended) = view.status {
                return Ok(ended.ending);
            }
            if let Some((name, value)) = self.next_signal(test, &view).await? {
                session.signal(&name, value).await?;
                continue;
            }
            let next = self.next_answer(test, &view).await?;
            match (next, view.wakes) {
                (Some((index, value)), _) => {
                    let open = view.questions().nth(index).cloned();
                    if let Some(open) = open {
                        session.answer_question(&open, value).await?;
                    }
                }
                (None, Some(wakes)) => test.advance(wakes.since(test.now())).await?,
                (None, None) => {
                    let keys = view.questions().map(|open| open.key.clone());
                    let keys = keys.chain(view.awaits.iter().cloned()).collect();
                    return Err(FlowTestError::NoAnswer { keys });
                }
            }
        }
    }

    /// Returns a signal that the flow waits for.
    async fn next_signal(
        &self,
        test: &FlowTest,
        view: &View,
    ) -> Result<Option<(String, Value)>, FlowTestError> {
        if view.awaits.is_empty() {
            return Ok(None);
        }
        let journal = test.engine().journal(view.id, &Owner::local()).await?;
        Ok(view.awaits.iter().find_map(|name| {
            let is_same = |event: &&JournalEvent| matches!(event, JournalEvent::Signalled { key, .. } if key == name);
            let value = self.signals.get(name, journal.iter().filter(is_same).count())?;
            Some((name.clone(), value.clone()))
        }))
    }

    /// Returns the index of an open question, and its answer.
    async fn next_answer(
        &self,
        test: &FlowTest,
        view: &View,
    ) -> Result<Option<(usize, Value)>, FlowTestError> {
        let session = test.engine().inspect(view.id, &Owner::local()).await?;
        let answered = |key: &str| {
            let ahead = session.queued.iter().filter(|queued| queued.answered.is_some());
            let ahead = ahead.filter(|queued| queued.asked.key == key).count();
            ahead + session.history.iter().filter(|turn| turn.asked.key == key).count()
        };
        Ok(view.questions().enumerate().find_map(|(index, open)| {
            let value = self.answers.get(&open.key, answered(&open.key))?;
            Some((index, value.clone()))
        }))
    }
}

/// Outcome of [`crash_at_every_append`].
#[derive(Clone, Debug, PartialEq)]
pub struct CrashReport {
    /// Number of crashes: one for each append of the session.
    pub crashes: usize,
    /// End of the session, the same after each of them.
    pub ending: Ending,
}

/// Runs a script once without a crash, and then once for each append of that run, with a server that
/// is killed there and another one that goes on with what was stored. Every run must end in the same
/// way.
///
/// A step that was running runs again, so its work may have run twice: count it in the flow to test
/// that it is idempotent.
///
/// ```
/// # use mcp_flow_engine::{Flow, FlowResult};
/// # use mcp_flow_interaction::OfferedFlow;
/// # use mcp_flow_session::question::text;
/// use mcp_flow_testing::{Script, crash_at_every_append};
/// use serde_json::json;
///
/// # #[derive(serde::Deserialize)]
/// # struct NoParams {}
/// async fn book(flow: Flow, _: NoParams) -> FlowResult<String> {
///     let city = flow.ask("city", text("Where to?")).await?;
///     flow.step("book", || async { Ok::<_, String>(format!("a room in {city}")) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_testing::FlowTestError> {
/// let script = Script::new("book", json!({})).answers(json!({"city": "Oslo"}));
/// let report = crash_at_every_append(|| OfferedFlow::new("book", book), &script).await?;
/// assert!(report.crashes > 2);
/// # Ok(())
/// # }
/// ```
pub async fn crash_at_every_append<F: IntoFlows>(
    flows: impl Fn() -> F,
    script: &Script,
) -> Result<CrashReport, FlowTestError> {
    crash_at_every_append_on(flows, script, || Arc::new(MemoryStore::new())).await
}

/// Crashes like [`crash_at_every_append`], on stores of another kind: `store` returns an empty one for
/// each run.
pub async fn crash_at_every_append_on<F: IntoFlows>(
    flows: impl Fn() -> F,
    script: &Script,
    store: impl Fn() -> Arc<dyn Store>,
) -> Result<CrashReport, FlowTestError> {
    let clock = || Arc::new(TestClock::new(START));
    let whole = TestStore::new(store());
    let test = build(flows(), &whole, clock()).await?;
    let ending = script.run(&test, None).await?;
    test.shutdown().await;
    let crashes = whole.appends();
    for append in 0..crashes {
        let (kept, clock) = (store(), clock());
        let crashed = TestStore::stopping_after(Arc::clone(&kept), append);
        let crashing = build(flows(), &crashed, Arc::clone(&clock)).await?;
        tokio::select! {
            biased;
            () = crashed.crashed() => {}
            // The append may also fail within the request.
            _ = script.run(&crashing, None) => {}
        }
        crashing.shutdown().await;

        let stored = TestStore::new(Arc::clone(&kept));
        let next = build(flows(), &stored, clock).await?;
        let page = PageRequest { after: None, most: 1 };
        let found =
            kept.list(Filter::default(), page).await.map_err(mcp_flow_engine::EngineError::from)?;
        let ran = script.run(&next, found.first().map(|listed| listed.id)).await;
        next.shutdown().await;
        let crash = |detail| FlowTestError::Crash { append, detail };
        let after = ran.map_err(|error| crash(error.to_string()))?;
        if after != ending {
            let (now, before) = (describe_ending(&after), describe_ending(&ending));
            return Err(crash(format!("the session {now}; without a crash it {before}")));
        }
    }
    Ok(CrashReport { crashes, ending })
}

async fn build(
    flows: impl IntoFlows,
    store: &Arc<TestStore>,
    clock: Arc<TestClock>,
) -> Result<FlowTest, FlowTestError> {
    // A crash takes no time, but a script only advances to the next timer.
    let builder = FlowTest::builder(flows).limits(|limits| {
        (limits.duration, limits.inactivity) = (None, None);
    });
    builder.build_on(Arc::clone(store), clock).await
}
