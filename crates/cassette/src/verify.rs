//! Plays the client's side of a cassette against a real server, and compares.
//!
//! The recorded messages are gone through in order: those of the client are sent, for those of the
//! server the live ones are awaited. So concurrent requests, questions and cancellations happen as they
//! did. Notifications are not compared: their number and order depend on time.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use crate::compare::{CommonPatterns, Comparison, Difference, Variations};
use crate::format::{Body, Cassette, Kind, Parsed, Record, Side, messages_in};
use crate::nearest::describe;
use crate::tape::{Step, Tape};

/// Options of a verification.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// Values that vary.
    pub variations: Variations,
    /// Times and UUIDs that differ are differences.
    pub is_strict: bool,
    /// Time for each response.
    pub timeout: Duration,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        let (variations, timeout) = (Variations::default(), Duration::from_secs(30));
        Self { variations, is_strict: false, timeout }
    }
}

/// Result of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Requests that were compared.
    pub exchanges: Vec<VerifiedExchange>,
}

/// Result of one request.
#[derive(Clone, Debug)]
pub struct VerifiedExchange {
    /// Line of the request in the cassette.
    pub line: usize,
    /// Method and params, shortened.
    pub request: String,
    /// Time until the response.
    pub seconds: f64,
    /// Differences of the response and of questions.
    pub differences: Vec<Difference>,
    /// Other problems, such as a missing response.
    pub problem: Option<String>,
}

impl VerifiedExchange {
    /// Returns whether the server did as recorded.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.problem.is_none()
    }

    /// The differences, one line each.
    pub fn lines(&self) -> Vec<String> {
        let missing =
            |text: &str| if text.is_empty() { "nothing".to_owned() } else { text.to_owned() };
        let differences = self.differences.iter().map(|difference| {
            let Difference { path, recorded, live } = difference;
            format!("{path}: recorded {}, now {}", missing(recorded), missing(live))
        });
        self.problem.iter().cloned().chain(differences).collect()
    }
}

impl VerifyReport {
    /// Number of requests with a difference.
    pub fn differing(&self) -> usize {
        self.exchanges.iter().filter(|exchange| !exchange.is_same()).count()
    }
}

impl Variations {
    /// Learns what varies from a second recording of the same requests.
    pub fn learn_from(&mut self, first: &Cassette, second: &Cassette) {
        let (first, second) = (Tape::new(first, &[]), Tape::new(second, &[]));
        let patterns = CommonPatterns::new();
        for (key, indexes) in &first.by_key {
            let others = second.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
            for (one, other) in indexes.iter().zip(others) {
                let (one, other) = (&first.exchanges[*one], &second.exchanges[*other]);
                let request = request_name(&one.method, &one.params);
                let responses = |steps: &[(Duration, Step)]| -> Vec<(&'static str, Value)> {
                    let response = |(_, step): &(Duration, Step)| match step {
                        Step::Response { member, value } => Some((*member, value.clone())),
                        _ => None,
                    };
                    steps.iter().filter_map(response).collect()
                };
                for ((member, before), (_, now)) in
                    responses(&one.steps).into_iter().zip(responses(&other.steps))
                {
                    let none = Self::default();
                    let mut comparison = Comparison {
                        variations: &none,
                        request: &request,
                        is_strict: false,
                        patterns: &patterns,
                        differences: Vec::new(),
                        renamed: Vec::new(),
                    };
                    comparison.compare(member, &before, &now);
                    for difference in comparison.differences {
                        self.learn(&request, &difference.path);
                    }
                }
            }
        }
    }
}

/// Method, and the name of what it is about.
fn request_name(method: &str, params: &Value) -> String {
    let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).unwrap_or_default();
    format!("{method} {name}")
}

/// Verifies that a server, started for each recorded connection, does as recorded.
pub async fn verify(
    cassette: &Cassette,
    command: &[OsString],
    options: &VerifyOptions,
) -> io::Result<VerifyReport> {
    let mut report = VerifyReport::default();
    let connections: BTreeSet<u64> =
        cassette.records.iter().map(|record| record.connection).collect();
    let patterns = CommonPatterns::new();
    for connection in connections {
        let mut session = Session::start(command, options, &patterns)?;
        for record in cassette.records.iter().filter(|record| record.connection == connection) {
            session.step(record).await;
        }
        session.check_unrecorded();
        report.exchanges.append(&mut session.finished());
        session.end().await;
    }
    Ok(report)
}

/// One connection to the live server.
struct Session<'a> {
    options: &'a VerifyOptions,
    patterns: &'a CommonPatterns,
    child: Child,
    input: Option<ChildStdin>,
    live: mpsc::Receiver<Parsed>,
    responses: HashMap<String, Parsed>,
    questions: VecDeque<Parsed>,
    /// Live ids of questions, by the recorded ones.
    question_ids: HashMap<String, Value>,
    open: Vec<Pending>,
    done: Vec<VerifiedExchange>,
    /// Texts of the recording, and what the live server has instead.
    renamed: Vec<(String, String)>,
    has_ended: bool,
}

struct Pending {
    id: Value,
    begun: Instant,
    request: String,
    exchange: VerifiedExchange,
    is_cancelled: bool,
}

impl<'a> Session<'a> {
    fn start(
        command: &[OsString],
        options: &'a VerifyOptions,
        patterns: &'a CommonPatterns,
    ) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("no command given"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let (sender, live) = mpsc::channel(1024);
        tokio::spawn(async move {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut line).await {
                if let Ok(raw) = serde_json::from_slice::<Box<serde_json::value::RawValue>>(&line) {
                    for message in messages_in(&raw) {
                        if sender.send(message).await.is_err() {
                            return;
                        }
                    }
                }
                line.clear();
            }
        });
        Ok(Self {
            options,
            patterns,
            child,
            input,
            live,
            responses: HashMap::new(),
            questions: VecDeque::new(),
            question_ids: HashMap::new(),
            open: Vec::new(),
            done: Vec::new(),
            renamed: Vec::new(),
            has_ended: false,
        })
    }

    async fn step(&mut self, record: &Record) {
        let message = match &record.body {
            Body::Message(message) => message,
            Body::Large(large) => {
                // It is awaited, so that what follows happens after it, and not compared.
                if let (Side::Server, Some(id)) = (record.from, &large.id) {
                    self.expect_response(id, None).await;
                }
                return;
            }
        };
        for parsed in messages_in(message) {
            match (record.from, parsed.kind()) {
                (Side::Client, Some(kind)) => self.send(record, parsed, kind).await,
                (Side::Server, Some(Kind::Response)) => {
                    let id = parsed.id.clone().unwrap_or_default();
                    self.expect_response(&id, Some(&parsed)).await;
                }
                (Side::Server, Some(Kind::Request)) => self.expect_question(&parsed).await,
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
        set("id", parsed.id.clone());
        set("method", parsed.method.clone().map(Value::from));
        set("params", parsed.params.clone());
        set("result", parsed.result.clone());
        set("error", parsed.error.clone());
        match kind {
            Kind::Response => {
                // Without the question there is nothing to answer.
                let id = parsed.id.unwrap_or_default().to_string();
                let Some(live) = self.question_ids.remove(&id) else { return };
                message["id"] = live;
            }
            Kind::Request => {
                let method = parsed.method.unwrap_or_default();
                let params = parsed.params.unwrap_or_default();
                self.open.push(Pending {
                    id: parsed.id.unwrap_or_default(),
                    begun: Instant::now(),
                    request: request_name(&method, &params),
                    exchange: VerifiedExchange {
                        line: record.line,
                        request: describe(&method, &params),
                        seconds: 0.0,
                        differences: Vec::new(),
                        problem: None,
                    },
                    is_cancelled: false,
                });
            }
            Kind::Notification if parsed.method.as_deref() == Some("notifications/cancelled") => {
                let id = message["params"]["requestId"].clone();
                for pending in self.open.iter_mut().filter(|pending| pending.id == id) {
                    pending.is_cancelled = true;
                }
            }
            Kind::Notification => {}
        }
        for (before, now) in &self.renamed {
            rename(&mut message, before, now);
        }
        let mut line = message.to_string();
        line.push('\n');
        if let Some(input) = &mut self.input {
            let sent = tokio::time::timeout(self.options.timeout, input.write_all(line.as_bytes()));
            if !matches!(sent.await, Ok(Ok(()))) {
                self.input = None;
            }
        }
    }

    /// Receives one message; `false` at the end or after the timeout.
    async fn receive(&mut self, until: tokio::time::Instant) -> bool {
        if self.has_ended {
            return false;
        }
        match tokio::time::timeout_at(until, self.live.recv()).await {
            Ok(Some(message)) => {
                match message.kind() {
                    Some(Kind::Response) => {
                        let id = message.id.clone().unwrap_or_default().to_string();
                        self.responses.insert(id, message);
                    }
                    Some(Kind::Request) => self.questions.push_back(message),
                    _ => {}
                }
                true
            }
            Ok(None) => {
                self.has_ended = true;
                false
            }
            Err(_) => false,
        }
    }

    async fn expect_response(&mut self, id: &Value, recorded: Option<&Parsed>) {
        let Some(at) = self.open.iter().position(|pending| pending.id == *id) else { return };
        let until = tokio::time::Instant::now() + self.options.timeout;
        while !self.responses.contains_key(&id.to_string()) && self.receive(until).await {}
        let mut pending = self.open.remove(at);
        pending.exchange.seconds = pending.begun.elapsed().as_secs_f64();
        match (self.responses.remove(&id.to_string()), recorded) {
            // A cancelled request may be answered or not: the two cross.
            _ if pending.is_cancelled => {}
            (None, _) => pending.exchange.problem = Some(self.missing("no response")),
            (Some(_), None) => {}
            (Some(live), Some(recorded)) => {
                let mut comparison = Comparison {
                    variations: &self.options.variations,
                    request: &pending.request,
                    is_strict: self.options.is_strict,
                    patterns: self.patterns,
                    differences: Vec::new(),
                    renamed: Vec::new(),
                };
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
                pending.exchange.differences.append(&mut comparison.differences);
                self.renamed.append(&mut comparison.renamed);
            }
        }
        self.done.push(pending.exchange);
    }

    /// Waits for a question like the recorded one.
    async fn expect_question(&mut self, recorded: &Parsed) {
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
                .any(|pending| self.responses.contains_key(&pending.id.to_string()));
            if is_answered || !self.receive(until).await {
                break None;
            }
        };
        let method = recorded.method.clone().unwrap_or_default();
        let problem = format!("the server did not ask {method}");
        let problem = if found.is_none() { Some(self.missing(&problem)) } else { None };
        let Some(pending) = self.open.last_mut() else {
            if let (Some(live), Some(id)) = (found.and_then(|live| live.id), &recorded.id) {
                self.question_ids.insert(id.to_string(), live);
            }
            return;
        };
        let Some(live) = found else {
            pending.exchange.problem = problem;
            return;
        };
        let mut comparison = Comparison {
            variations: &self.options.variations,
            request: &pending.request,
            is_strict: self.options.is_strict,
            patterns: self.patterns,
            differences: Vec::new(),
            renamed: Vec::new(),
        };
        let empty = json!({});
        let before = recorded.params.as_ref().unwrap_or(&empty);
        comparison.compare(&method, before, live.params.as_ref().unwrap_or(&empty));
        pending.exchange.differences.append(&mut comparison.differences);
        if let (Some(id), Some(live)) = (&recorded.id, live.id) {
            self.question_ids.insert(id.to_string(), live);
        }
    }

    fn missing(&self, what: &str) -> String {
        match self.has_ended {
            true => format!("{what}: the server has exited"),
            false => format!("{what} within {} s", self.options.timeout.as_secs()),
        }
    }

    /// Reports questions that were not recorded.
    fn check_unrecorded(&mut self) {
        let methods: Vec<_> =
            self.questions.drain(..).filter_map(|question| question.method).collect();
        if let (Some(method), Some(last)) = (methods.first(), self.done.last_mut()) {
            let problem = format!("the server asked {method}, which was not recorded");
            last.problem.get_or_insert(problem);
        }
    }

    fn finished(&mut self) -> Vec<VerifiedExchange> {
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|exchange| exchange.line);
        done
    }

    async fn end(mut self) {
        drop(self.input.take());
        if tokio::time::timeout(EXIT_TIME, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Replaces a text wherever it is a whole value.
fn rename(value: &mut Value, before: &str, now: &str) {
    match value {
        Value::String(text) if text == before => now.clone_into(text),
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, before, now)),
        Value::Object(members) => members.values_mut().for_each(|value| rename(value, before, now)),
        _ => {}
    }
}

/// Time for the server to exit.
const EXIT_TIME: Duration = Duration::from_secs(3);
