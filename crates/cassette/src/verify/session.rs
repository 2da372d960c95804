//! One connection to the server that is verified.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::live::{LiveMessage, LiveOutput, LiveServer};
use super::{LARGE, VerifiedExchange, VerifyOptions, VerifyReport, request_name};
use crate::compare::{CommonPatterns, Comparison, Difference};
use crate::format::{Body, Kind, Parsed, Record, Reference, Side, messages_in};
use crate::mask::MASK;
use crate::nearest::describe;
use crate::renamed::Renamed;
use crate::tape::find_asked;

/// Plays recorded messages to a live server.
pub(super) struct Session<'a> {
    options: &'a VerifyOptions,
    patterns: &'a CommonPatterns,
    server: LiveServer,
    responses: HashMap<String, LiveMessage>,
    questions: VecDeque<Parsed>,
    /// Live ids of questions, by connection and the recorded ones.
    question_ids: HashMap<String, Value>,
    /// Ids that were sent to the server, which must be different ones.
    used_ids: HashSet<String>,
    answered_ids: HashSet<String>,
    open: Vec<Pending>,
    done: Vec<VerifiedExchange>,
    renamed: &'a mut Renamed,
    /// Output of the server beside messages that belong to the recording.
    problems: Vec<String>,
    has_ended: bool,
}

/// A request without a response.
struct Pending {
    connection: u64,
    /// Recorded id, and HTTP request.
    id: Value,
    exchange: Option<u64>,
    /// The id that the server knows.
    live_id: Value,
    begun: Instant,
    request: String,
    report: VerifiedExchange,
    is_cancelled: bool,
    /// Values of it are masked in the recording, so that the server is sent others.
    is_masked: bool,
}

impl<'a> Session<'a> {
    pub(super) fn start(
        command: &[OsString],
        options: &'a VerifyOptions,
        patterns: &'a CommonPatterns,
        renamed: &'a mut Renamed,
    ) -> io::Result<Self> {
        Ok(Self {
            options,
            patterns,
            server: LiveServer::start(command)?,
            responses: HashMap::new(),
            questions: VecDeque::new(),
            question_ids: HashMap::new(),
            used_ids: HashSet::new(),
            answered_ids: HashSet::new(),
            open: Vec::new(),
            done: Vec::new(),
            renamed,
            problems: Vec::new(),
            has_ended: false,
        })
    }

    /// Sends a recorded message of the client, or waits for the one like a recorded message of the server.
    pub(super) async fn step(&mut self, record: &Record) {
        let message = match &record.body {
            Body::Message(message) => message,
            Body::Large(large) => {
                match record.from {
                    Side::Server => {
                        let id = large.id.clone().unwrap_or_default();
                        self.expect_response(record, &id, Expected::Large(large)).await;
                    }
                    Side::Client => {
                        let mut report = new_report(record, "a message that was not kept");
                        report.skipped = Some("it was too large to be recorded");
                        self.done.push(report);
                    }
                }
                return;
            }
        };
        for parsed in messages_in(message) {
            match (record.from, parsed.kind()) {
                (Side::Client, Some(kind)) => self.send(record, parsed, kind).await,
                (Side::Server, Some(Kind::Response)) => {
                    let id = parsed.id.clone().unwrap_or_default();
                    self.expect_response(record, &id, Expected::Whole(&parsed)).await;
                }
                (Side::Server, Some(Kind::Request)) => self.expect_question(record, &parsed).await,
                _ => {}
            }
        }
    }

    /// Sends a message of the client.
    async fn send(&mut self, record: &Record, parsed: Parsed, kind: Kind) {
        let mut message = json!({"jsonrpc": "2.0"});
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                message[name] = value;
            }
        };
        set("method", parsed.method.clone().map(Value::from));
        set("params", parsed.params.clone());
        set("result", parsed.result.clone());
        set("error", parsed.error.clone());
        self.renamed.apply(&mut message);
        match kind {
            Kind::Response => {
                // Without the question there is nothing to answer.
                let id = question_key(record, &parsed.id.unwrap_or_default());
                let Some(live) = self.question_ids.remove(&id) else { return };
                message["id"] = live;
            }
            Kind::Request => {
                let method = parsed.method.unwrap_or_default();
                let params = parsed.params.unwrap_or_default();
                let id = parsed.id.unwrap_or_default();
                let live_id = self.unused_id(&id);
                message["id"] = live_id.clone();
                self.open.push(Pending {
                    connection: record.connection,
                    id,
                    exchange: record.exchange,
                    live_id,
                    begun: Instant::now(),
                    request: request_name(&method, &params),
                    report: new_report(record, &describe(&method, &params)),
                    is_cancelled: false,
                    is_masked: params.to_string().contains(MASK),
                });
            }
            Kind::Notification if parsed.method.as_deref() == Some("notifications/cancelled") => {
                let params = parsed.params.unwrap_or_default();
                let of_connection =
                    self.open.iter_mut().filter(|one| one.connection == record.connection);
                for pending in of_connection.filter(|one| one.id == params["requestId"]) {
                    pending.is_cancelled = true;
                    message["params"]["requestId"] = pending.live_id.clone();
                }
            }
            Kind::Notification => {}
        }
        self.server.send(&format!("{message}\n"), self.options.timeout).await;
    }

    /// An id for the live server: the recorded one, unless another client had the same.
    fn unused_id(&mut self, id: &Value) -> Value {
        let (mut chosen, mut number) = (id.clone(), self.used_ids.len());
        while !self.used_ids.insert(chosen.to_string()) {
            number += 1;
            chosen = format!("verify-{number}").into();
        }
        chosen
    }

    /// Receives one message; `false` at the end or after the timeout.
    async fn receive(&mut self, until: tokio::time::Instant) -> bool {
        if self.has_ended {
            return false;
        }
        match tokio::time::timeout_at(until, self.server.receive()).await {
            Ok(Some(output)) => {
                self.take(output);
                true
            }
            Ok(None) => {
                self.has_ended = true;
                false
            }
            Err(_) => false,
        }
    }

    fn take(&mut self, output: LiveOutput) {
        let message = match output {
            LiveOutput::Message(message) => *message,
            LiveOutput::Text(text) => {
                return self.complain(format!("the server wrote what is no message: {text}"));
            }
        };
        match message.parsed.kind() {
            Some(Kind::Response) => {
                let id = message.parsed.id.clone().unwrap_or_default();
                let key = id.to_string();
                if self.answered_ids.insert(key.clone()) {
                    self.responses.insert(key, message);
                } else if !id.is_null() {
                    self.complain(format!("the server sent a second response to id {id}"));
                }
            }
            Some(Kind::Request) => self.questions.push_back(message.parsed),
            _ => {}
        }
    }

    fn complain(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    async fn expect_response(&mut self, record: &Record, id: &Value, recorded: Expected<'_>) {
        let of_connection: Vec<usize> = (0..self.open.len())
            .filter(|index| self.open[*index].connection == record.connection)
            .collect();
        let requests =
            of_connection.iter().map(|index| (&self.open[*index].id, self.open[*index].exchange));
        let Some(at) = find_asked(requests, id, record.exchange) else { return };
        let at = of_connection[at];
        let key = self.open[at].live_id.to_string();
        let until = tokio::time::Instant::now() + self.options.timeout;
        while !self.responses.contains_key(&key) && self.receive(until).await {}
        let Pending { begun, request, mut report, is_cancelled, is_masked, id, live_id, .. } =
            self.open.remove(at);
        report.seconds = begun.elapsed().as_secs_f64();
        match self.responses.remove(&key) {
            // A cancelled request may be answered or not: the two cross.
            _ if is_cancelled => {}
            None => report.problem = Some(self.missing("no response")),
            Some(live) => match recorded {
                Expected::Whole(recorded) => {
                    let mut comparison = self.comparison(&request);
                    compare_responses(&mut comparison, recorded, &live.parsed);
                    report.differences.append(&mut comparison.differences);
                    let renamed = comparison.renamed;
                    self.renamed.extend(renamed);
                }
                Expected::Large(recorded) => {
                    let is_ignored = self.options.variations.varies(&request, LARGE);
                    let is_same_id = id == live_id;
                    if !is_ignored && !is_same_text(recorded, &live, is_same_id) {
                        report.differences.push(Difference {
                            path: LARGE.to_owned(),
                            recorded: show(recorded.bytes, &recorded.sha256),
                            live: show(live.bytes, live.sha256.as_deref().unwrap_or_default()),
                        });
                    }
                }
            },
        }
        if is_masked && !report.differences.is_empty() {
            let hint = "values of this request are masked in the recording, and were sent so";
            report.problem.get_or_insert(hint.to_owned());
        }
        self.done.push(report);
    }

    fn comparison<'b>(&'b self, request: &'b str) -> Comparison<'b> {
        Comparison {
            variations: &self.options.variations,
            request,
            is_strict: self.options.is_strict,
            patterns: self.patterns,
            differences: Vec::new(),
            renamed: Renamed::default(),
        }
    }

    /// Waits for a question like the recorded one.
    async fn expect_question(&mut self, record: &Record, recorded: &Parsed) {
        let until = tokio::time::Instant::now() + self.options.timeout;
        let fits = |question: &Parsed| question.method == recorded.method;
        let found = loop {
            if let Some(at) = self.questions.iter().position(fits) {
                break self.questions.remove(at);
            }
            // A response instead of the question means that it will not be asked.
            let is_answered = self
                .open
                .iter()
                .any(|pending| self.responses.contains_key(&pending.live_id.to_string()));
            if is_answered || !self.receive(until).await {
                break None;
            }
        };
        let method = recorded.method.clone().unwrap_or_default();
        let Some(live) = found else {
            let problem = self.missing(&format!("the server did not ask {method}"));
            if let Some(pending) = self.open.last_mut() {
                pending.report.problem = Some(problem);
            }
            return;
        };
        if let (Some(id), Some(live)) = (&recorded.id, live.id) {
            self.question_ids.insert(question_key(record, id), live);
        }
        let Some(pending) = self.open.last() else { return };
        let mut comparison = self.comparison(&pending.request);
        let empty = json!({});
        let before = recorded.params.as_ref().unwrap_or(&empty);
        comparison.compare(&method, before, live.params.as_ref().unwrap_or(&empty));
        let (mut differences, renamed) = (comparison.differences, comparison.renamed);
        self.renamed.extend(renamed);
        if let Some(pending) = self.open.last_mut() {
            pending.report.differences.append(&mut differences);
        }
    }

    fn missing(&self, what: &str) -> String {
        match self.has_ended {
            true => format!("{what}: the server has exited"),
            false => format!("{what} within {} s", self.options.timeout.as_secs()),
        }
    }

    /// Waits until the server exits, and reports what was compared, questions that were not recorded, and
    /// requests without a response.
    pub(super) async fn finish(mut self, report: &mut VerifyReport) {
        self.server.close();
        let until = tokio::time::Instant::now() + EXIT_TIME;
        while self.receive(until).await {}
        self.server.end(until).await;
        let methods: Vec<_> =
            self.questions.drain(..).filter_map(|question| question.method).collect();
        let compared = self.done.iter_mut().rfind(|report| report.skipped.is_none());
        if let (Some(method), Some(last)) = (methods.first(), compared) {
            let problem = format!("the server asked {method}, which was not recorded");
            last.problem.get_or_insert(problem);
        }
        for pending in self.open.drain(..) {
            let mut report = pending.report;
            report.skipped = Some("no response was recorded");
            self.done.push(report);
        }
        report.exchanges.append(&mut self.done);
        report.problems.append(&mut self.problems);
    }
}

/// A recorded response.
enum Expected<'a> {
    Whole(&'a Parsed),
    Large(&'a Reference),
}

fn new_report(record: &Record, request: &str) -> VerifiedExchange {
    VerifiedExchange {
        line: record.line,
        request: request.to_owned(),
        seconds: Duration::ZERO.as_secs_f64(),
        differences: Vec::new(),
        problem: None,
        skipped: None,
    }
}

fn question_key(record: &Record, id: &Value) -> String {
    format!("{} {id}", record.connection)
}

fn compare_responses(comparison: &mut Comparison<'_>, recorded: &Parsed, live: &Parsed) {
    match (&recorded.result, &recorded.error, &live.result, &live.error) {
        (Some(before), _, Some(now), _) => comparison.compare("result", before, now),
        (_, Some(before), _, Some(now)) => comparison.compare("error", before, now),
        (before, error, now, live_error) => {
            let before = before.as_ref().or(error.as_ref());
            let now = now.as_ref().or(live_error.as_ref());
            let name = if recorded.error.is_some() { "error" } else { "result" };
            let before = json!({name: before});
            let name = if live.error.is_some() { "error" } else { "result" };
            comparison.compare("response", &before, &json!({name: now}));
        }
    }
}

/// Compares messages that are not kept. With another id the digest must differ, and the length may.
fn is_same_text(recorded: &Reference, live: &LiveMessage, is_same_id: bool) -> bool {
    match is_same_id {
        true => live.sha256.as_ref() == Some(&recorded.sha256),
        false => recorded.bytes.abs_diff(live.bytes) <= MAX_ID_DIFFERENCE,
    }
}

fn show(bytes: u64, sha256: &str) -> String {
    let digest: String = sha256.chars().take(12).collect();
    if digest.is_empty() {
        format!("{bytes} bytes")
    } else {
        format!("{bytes} bytes, sha256 {digest}…")
    }
}

/// Longest difference that another id makes to a message, in bytes.
const MAX_ID_DIFFERENCE: u64 = 64;

/// Limit on what is reported of other output.
const MAX_PROBLEMS: usize = 20;

/// Time for the server to exit.
const EXIT_TIME: Duration = Duration::from_secs(3);
