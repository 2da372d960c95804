//! The last exchanges and the last minutes, as long as somebody watches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_flow_proto::{Encoding, Raw, Revision};
use mcp_flow_server::Observed;
use mcp_flow_server::observe::ConnectionCounts;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::admin::now;
use crate::figures::{self, Counting, Second};

/// Keeps a bounded number of exchanges and seconds. Off until somebody watches, and again a while
/// after the last one has left.
pub(crate) struct Recorder {
    on: AtomicBool,
    state: Mutex<State>,
    /// The number of the latest exchange.
    latest: watch::Sender<u64>,
    /// How many seconds were counted.
    seconds: watch::Sender<u64>,
    connections: Arc<ConnectionCounts>,
}

#[derive(Default)]
struct State {
    exchanges: VecDeque<Arc<Exchange>>,
    last: u64,
    counting: Counting,
    minutes: VecDeque<Second>,
    watchers: usize,
    /// Since when nobody watches.
    alone: Option<Instant>,
}

/// One exchange as it is told of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Exchange {
    /// Counted from 1.
    number: u64,
    /// When it was answered, in milliseconds since 1970.
    at: u64,
    transport: &'static str,
    principal: String,
    client: Option<String>,
    revision: Option<&'static str>,
    id: Value,
    method: String,
    /// JSON; of what is long only the beginning.
    params: String,
    /// JSON; of what is long only the beginning.
    result: Option<String>,
    error: Option<Value>,
    /// Whether a tool said that it failed.
    failed: bool,
    request_bytes: usize,
    response_bytes: usize,
    /// From being taken up to being answered, in milliseconds.
    time: f64,
}

impl Recorder {
    pub(crate) fn new(connections: Arc<ConnectionCounts>) -> Self {
        Self {
            on: AtomicBool::new(false),
            state: Mutex::default(),
            latest: watch::Sender::new(0),
            seconds: watch::Sender::new(0),
            connections,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records until a while after what this returns is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> Watching {
        let mut state = self.state();
        state.watchers += 1;
        state.alone = None;
        if !self.on.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().count_seconds());
        }
        drop(state);
        Watching {
            recorder: self.clone(),
            latest: self.latest.subscribe(),
            seconds: self.seconds.subscribe(),
        }
    }

    pub(crate) fn record(&self, observed: &Observed<'_>) {
        // What watching itself leads to is of no interest.
        if observed.method.starts_with("admin/") {
            return;
        }
        let exchange = Exchange::new(observed);
        let bytes = (exchange.request_bytes, exchange.response_bytes);
        let is_error = exchange.error.is_some() || exchange.failed;
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.counting.count(observed.time, is_error, bytes);
        if state.exchanges.len() >= EXCHANGES {
            state.exchanges.pop_front();
        }
        state.exchanges.push_back(Arc::new(Exchange { number, ..exchange }));
        drop(state);
        self.latest.send_replace(number);
    }

    /// The exchanges after one, as far as they are kept, oldest first and no more than so many of
    /// the newest; and the number of the last.
    pub(crate) fn after(&self, number: u64, most: usize) -> (Vec<Value>, u64) {
        let state = self.state();
        let newer = state.exchanges.iter().filter(|exchange| exchange.number > number);
        let skipped = newer.clone().count().saturating_sub(most);
        let (newer, last) = (newer.skip(skipped).cloned().collect::<Vec<_>>(), state.last);
        // Written down when nobody waits for the lock.
        drop(state);
        let told = |exchange: &Arc<Exchange>| serde_json::to_value(&**exchange).unwrap_or_default();
        (newer.iter().map(told).collect(), last)
    }

    /// The seconds that are kept, oldest first.
    pub(crate) fn minutes(&self) -> Vec<Second> {
        self.state().minutes.iter().cloned().collect()
    }

    pub(crate) fn last_second(&self) -> Option<Second> {
        self.state().minutes.back().cloned()
    }

    async fn count_seconds(self: Arc<Self>) {
        let mut clock = tokio::time::interval(SECOND);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        clock.tick().await;
        loop {
            clock.tick().await;
            if self.end_second() {
                return;
            }
        }
    }

    /// Ends a second. Whether nobody has watched for so long that this is over.
    fn end_second(&self) -> bool {
        let memory = figures::memory();
        let mut state = self.state();
        let counted = std::mem::take(&mut state.counting);
        if state.minutes.len() >= SECONDS {
            state.minutes.pop_front();
        }
        state.minutes.push_back(counted.finish(now(), self.connections.open(), memory));
        let is_over = state.alone.is_some_and(|since| since.elapsed() >= LINGER);
        if is_over {
            self.on.store(false, Ordering::Release);
        }
        drop(state);
        self.seconds.send_modify(|count| *count += 1);
        is_over
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    fn new(observed: &Observed<'_>) -> Self {
        let encoding = observed.encoding;
        let (result, error, failed, response_bytes) = match observed.outcome {
            Ok(bytes) => (Some(beginning(encoding, bytes)), None, observed.failed, bytes.len()),
            Err(error) => {
                let revision = observed.peer.map_or(Revision::BASE, |peer| peer.revision);
                let told = serde_json::to_value(error.wire(revision)).unwrap_or_default();
                let length = told.to_string().len();
                (None, Some(told), false, length)
            }
        };
        Self {
            number: 0,
            at: now(),
            transport: observed.connection.transport,
            principal: observed.principal.name().to_owned(),
            client: observed.peer.map(|peer| peer.name().chars().take(LONGEST_NAME).collect()),
            revision: observed.peer.map(|peer| peer.revision.name()),
            id: serde_json::to_value(observed.id).unwrap_or_default(),
            method: observed.method.to_owned(),
            params: observed.params.to_owned(),
            result,
            error,
            failed,
            request_bytes: observed.request_bytes,
            response_bytes,
            time: observed.time.as_secs_f64() * 1000.0,
        }
    }
}

/// What a watcher holds.
pub(crate) struct Watching {
    recorder: Arc<Recorder>,
    pub(crate) latest: watch::Receiver<u64>,
    pub(crate) seconds: watch::Receiver<u64>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut state = self.recorder.state();
        state.watchers -= 1;
        if state.watchers == 0 {
            state.alone = Some(Instant::now());
        }
    }
}

fn beginning(encoding: Encoding, bytes: &[u8]) -> String {
    match encoding {
        Encoding::Json => {
            let cut = &bytes[..bytes.len().min(LONGEST_RESULT)];
            String::from_utf8_lossy(cut).trim_end_matches('\u{fffd}').to_owned()
        }
        // Nothing shorter than the whole can be read, and what is long is not worth it.
        Encoding::Cbor if bytes.len() > LONGEST_CBOR => String::new(),
        Encoding::Cbor => {
            let value: Value = Raw::Cbor(bytes).decode().unwrap_or_default();
            beginning(Encoding::Json, value.to_string().as_bytes())
        }
    }
}

/// How many exchanges are kept; with what is kept of each, a few megabytes at most.
pub(crate) const EXCHANGES: usize = 500;

const LONGEST_RESULT: usize = 4096;
const LONGEST_CBOR: usize = 64 * 1024;
const LONGEST_NAME: usize = 128;

const SECOND: Duration = Duration::from_secs(1);

/// How many seconds are kept.
const SECONDS: usize = 300;

/// How long recording goes on when nobody watches any more, so that a page can be loaded again.
const LINGER: Duration = Duration::from_secs(60);
