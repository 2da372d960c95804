//! Recorder of recent exchanges and metrics, active while there are watches. Exchanges about sessions are
//! always recorded: whoever looks at a session later sees what caused its events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_flow_proto::{Encoding, Raw, Revision};
use mcp_flow_server::Observed;
use mcp_flow_server::observe::ConnectionCounts;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::admin::now;
use crate::metrics::{self, SecondCounter, SecondMetrics};

/// Keeps a bounded number of exchanges and seconds. Records from the first watch until a while
/// after the last one has ended.
pub(crate) struct Recorder {
    on: AtomicBool,
    state: Mutex<State>,
    /// Number of the latest exchange.
    latest: watch::Sender<u64>,
    /// Number of finished seconds.
    seconds: watch::Sender<u64>,
    connections: Arc<ConnectionCounts>,
}

#[derive(Default)]
struct State {
    exchanges: VecDeque<Arc<Exchange>>,
    /// Exchanges about sessions, whether there were watches or not.
    about_sessions: VecDeque<Arc<Exchange>>,
    /// Whole results of exchanges whose results were truncated, by number, as far as there is room.
    whole: VecDeque<(u64, Arc<str>)>,
    whole_bytes: usize,
    last: u64,
    counter: SecondCounter,
    seconds_kept: VecDeque<SecondMetrics>,
    watchers: usize,
    /// Time at which the last watch ended.
    idle_since: Option<Instant>,
}

/// A recorded exchange.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Exchange {
    /// Sequence number, from 1.
    number: u64,
    /// Time of the response, in milliseconds since 1970.
    at: u64,
    transport: &'static str,
    principal: String,
    client: Option<String>,
    revision: Option<&'static str>,
    id: Value,
    method: String,
    /// Server behind this one that the request is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    /// JSON, truncated.
    params: String,
    /// JSON, truncated.
    result: Option<String>,
    error: Option<Value>,
    /// True if a tool returned `isError`.
    failed: bool,
    request_bytes: usize,
    response_bytes: usize,
    /// Latency in milliseconds.
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

    /// Returns whether requests with a method are recorded now.
    pub(crate) fn records(&self, method: &str) -> bool {
        // Requests of the admin extension itself are not recorded.
        is_about_session(method) || self.is_on() && !method.starts_with("admin/")
    }

    /// Starts recording, until a while after the returned guard is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> RecordingGuard {
        let mut state = self.state();
        state.watchers += 1;
        state.idle_since = None;
        if !self.on.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().count_seconds());
        }
        drop(state);
        RecordingGuard {
            recorder: self.clone(),
            latest: self.latest.subscribe(),
            seconds: self.seconds.subscribe(),
        }
    }

    pub(crate) fn record(&self, observed: &Observed<'_>) {
        let is_on = self.is_on();
        let exchange = Exchange::new(observed);
        let whole = if is_on { whole_result(observed) } else { None };
        let bytes = (exchange.request_bytes, exchange.response_bytes);
        let is_error = exchange.error.is_some() || exchange.failed;
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        let exchange = Arc::new(Exchange { number, ..exchange });
        if is_about_session(observed.method) {
            push_bounded(&mut state.about_sessions, exchange.clone());
        }
        if !is_on {
            return;
        }
        state.counter.count(observed.time, is_error, bytes);
        push_bounded(&mut state.exchanges, exchange);
        if let Some(whole) = whole {
            state.whole_bytes += whole.len();
            state.whole.push_back((number, whole));
        }
        state.forget_whole();
        drop(state);
        self.latest.send_replace(number);
    }

    /// Exchanges after a number, oldest first, at most the newest `most`; and the number of the
    /// last.
    pub(crate) fn after(&self, number: u64, most: usize) -> (Vec<Value>, u64) {
        let state = self.state();
        let newer = state.exchanges.iter().filter(|exchange| exchange.number > number);
        let skipped = newer.clone().count().saturating_sub(most);
        let (newer, last) = (newer.skip(skipped).cloned().collect::<Vec<_>>(), state.last);
        // Serialized after the lock is released.
        drop(state);
        let encode =
            |exchange: &Arc<Exchange>| serde_json::to_value(&**exchange).unwrap_or_default();
        (newer.iter().map(encode).collect(), last)
    }

    /// All exchanges, also those about sessions while there was no watch, oldest first.
    pub(crate) fn with_sessions(&self) -> Vec<Value> {
        let state = self.state();
        let mut all: Vec<_> =
            state.about_sessions.iter().chain(&state.exchanges).cloned().collect();
        drop(state);
        all.sort_by_key(|exchange| exchange.number);
        all.dedup_by_key(|exchange| exchange.number);
        all.iter().map(|exchange| serde_json::to_value(&**exchange).unwrap_or_default()).collect()
    }

    /// All exchanges, oldest first, with whole results as far as they are kept.
    pub(crate) fn with_whole_results(&self) -> Vec<Value> {
        let whole: HashMap<u64, Arc<str>> = self.state().whole.iter().cloned().collect();
        let (mut exchanges, _) = self.after(0, MAX_EXCHANGES);
        for exchange in &mut exchanges {
            let number = exchange["number"].as_u64().unwrap_or_default();
            if let Some(whole) = whole.get(&number) {
                exchange["result"] = whole.as_ref().into();
            }
        }
        exchanges
    }

    /// Recorded seconds, oldest first.
    pub(crate) fn seconds_kept(&self) -> Vec<SecondMetrics> {
        self.state().seconds_kept.iter().cloned().collect()
    }

    pub(crate) fn last_second(&self) -> Option<SecondMetrics> {
        self.state().seconds_kept.back().cloned()
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

    /// Ends a second. Returns true if recording stops, because there was no watch for a while.
    fn end_second(&self) -> bool {
        let memory = metrics::memory();
        let mut state = self.state();
        let counted = std::mem::take(&mut state.counter);
        if state.seconds_kept.len() >= MAX_SECONDS {
            state.seconds_kept.pop_front();
        }
        state.seconds_kept.push_back(counted.finish(now(), self.connections.open(), memory));
        let is_over = state.idle_since.is_some_and(|since| since.elapsed() >= LINGER);
        if is_over {
            self.on.store(false, Ordering::Release);
        }
        drop(state);
        self.seconds.send_modify(|count| *count += 1);
        is_over
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Forgets the oldest whole results: those beyond the limit, and those of exchanges that are forgotten.
    fn forget_whole(&mut self) {
        let oldest = self.exchanges.front().map_or(0, |exchange| exchange.number);
        while let Some((number, whole)) = self.whole.front() {
            if self.whole_bytes <= MAX_WHOLE_BYTES && *number >= oldest {
                return;
            }
            self.whole_bytes -= whole.len();
            self.whole.pop_front();
        }
    }
}

impl Exchange {
    fn new(observed: &Observed<'_>) -> Self {
        let encoding = observed.encoding;
        let (result, error, failed, response_bytes) = match observed.outcome {
            Ok(bytes) => (Some(truncated(encoding, bytes)), None, observed.failed, bytes.len()),
            Err(error) => {
                let revision = observed.peer.map_or(Revision::BASE, |peer| peer.revision);
                let error = serde_json::to_value(error.wire(revision)).unwrap_or_default();
                let length = error.to_string().len();
                (None, Some(error), false, length)
            }
        };
        Self {
            number: 0,
            at: now(),
            transport: observed.connection.transport,
            principal: observed.principal.name().to_owned(),
            client: observed.peer.map(|peer| peer.name().chars().take(MAX_NAME_LENGTH).collect()),
            revision: observed.peer.map(|peer| peer.revision.name()),
            id: serde_json::to_value(observed.id).unwrap_or_default(),
            method: observed.method.to_owned(),
            upstream: observed.upstream.map(str::to_owned),
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

/// Guard of a watch: recording continues while there is one.
pub(crate) struct RecordingGuard {
    recorder: Arc<Recorder>,
    pub(crate) latest: watch::Receiver<u64>,
    pub(crate) seconds: watch::Receiver<u64>,
}

impl Drop for RecordingGuard {
    fn drop(&mut self) {
        let mut state = self.recorder.state();
        state.watchers -= 1;
        if state.watchers == 0 {
            state.idle_since = Some(Instant::now());
        }
    }
}

/// Returns whether requests with a method are about a session.
fn is_about_session(method: &str) -> bool {
    method.starts_with("interaction.")
}

fn push_bounded(exchanges: &mut VecDeque<Arc<Exchange>>, exchange: Arc<Exchange>) {
    if exchanges.len() >= MAX_EXCHANGES {
        exchanges.pop_front();
    }
    exchanges.push_back(exchange);
}

/// The whole result, if it is longer than what an exchange keeps and not too long.
fn whole_result(observed: &Observed<'_>) -> Option<Arc<str>> {
    let bytes = observed.outcome.as_ref().ok()?;
    let limit = match observed.encoding {
        Encoding::Json => MAX_WHOLE_BYTES / 4,
        Encoding::Cbor => MAX_CBOR_LENGTH,
    };
    if bytes.len() <= MAX_RESULT_LENGTH / 2 || bytes.len() > limit {
        return None;
    }
    let text: Arc<str> = match observed.encoding {
        Encoding::Json => std::str::from_utf8(bytes).ok()?.into(),
        Encoding::Cbor => Raw::Cbor(bytes).decode::<Value>().ok()?.to_string().into(),
    };
    (text.len() > MAX_RESULT_LENGTH).then_some(text)
}

fn truncated(encoding: Encoding, bytes: &[u8]) -> String {
    match encoding {
        Encoding::Json => {
            let cut = &bytes[..bytes.len().min(MAX_RESULT_LENGTH)];
            String::from_utf8_lossy(cut).trim_end_matches('\u{fffd}').to_owned()
        }
        // CBOR cannot be truncated before decoding; long results are omitted.
        Encoding::Cbor if bytes.len() > MAX_CBOR_LENGTH => String::new(),
        Encoding::Cbor => {
            let value: Value = Raw::Cbor(bytes).decode().unwrap_or_default();
            truncated(Encoding::Json, value.to_string().as_bytes())
        }
    }
}

/// Maximum number of recorded exchanges, a few megabytes at most.
pub(crate) const MAX_EXCHANGES: usize = 500;

const MAX_RESULT_LENGTH: usize = 4096;

/// Limit on the whole results that are kept, in bytes together.
const MAX_WHOLE_BYTES: usize = 4 * 1024 * 1024;

const MAX_CBOR_LENGTH: usize = 64 * 1024;
const MAX_NAME_LENGTH: usize = 128;

const SECOND: Duration = Duration::from_secs(1);

/// Maximum number of recorded seconds.
const MAX_SECONDS: usize = 300;

/// Time for which recording continues after the last watch, so that a page can be reloaded.
const LINGER: Duration = Duration::from_secs(60);
