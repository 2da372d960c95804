//! Plays the client's side of a cassette against a real server, and compares.
//!
//! The recorded messages are gone through in order: those of the client are sent, for those of the
//! server the live ones are awaited. So concurrent requests, questions and cancellations happen as they
//! did. Notifications are not compared: their number and order depend on time.

mod live;
mod session;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::{CommonPatterns, Comparison, Difference, Variations};
use crate::format::{Body, Cassette, Record, Side, messages_in};
use crate::tape::{Step, Tape};
use crate::verify::session::Session;

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
    /// Requests that were recorded.
    pub exchanges: Vec<VerifiedExchange>,
    /// True if the recording was cut off, so that less was compared than was recorded.
    pub is_truncated: bool,
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
    /// The reason nothing was compared, such as that no response was recorded.
    pub skipped: Option<&'static str>,
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
    /// Number of requests that were compared.
    pub fn compared(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.skipped.is_none()).count()
    }

    /// Returns whether the server did all that was recorded.
    pub fn is_good(&self) -> bool {
        self.differing() == 0 && !self.is_truncated
    }

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
                        Step::LargeResponse { sha256 } => Some((LARGE, json!(sha256))),
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

/// Verifies that a server does as recorded. It is started for each recorded handshake, and once for all
/// connections without one, which are requests of stateless clients.
pub async fn verify(
    cassette: &Cassette,
    command: &[OsString],
    options: &VerifyOptions,
) -> io::Result<VerifyReport> {
    let mut report =
        VerifyReport { is_truncated: cassette.is_truncated, ..VerifyReport::default() };
    let patterns = CommonPatterns::new();
    // Texts of the recording, and what the live server has instead. A state goes from one connection to
    // another.
    let mut renamed = Vec::new();
    for records in sessions_of(cassette) {
        let mut session = Session::start(command, options, &patterns, &mut renamed)?;
        for record in records {
            session.step(record).await;
        }
        report.exchanges.append(&mut session.finish());
        session.end().await;
    }
    report.exchanges.sort_by_key(|exchange| exchange.line);
    Ok(report)
}

/// The records of each process that is started.
fn sessions_of(cassette: &Cassette) -> Vec<Vec<&Record>> {
    let begins = |record: &&Record| match &record.body {
        Body::Message(raw) if record.from == Side::Client => {
            let mut messages = messages_in(raw).into_iter();
            messages.any(|message| message.method.as_deref() == Some("initialize"))
        }
        _ => false,
    };
    // Handshakes of each connection so far: clients without a session share one.
    let mut handshakes = HashMap::<u64, usize>::new();
    // What belongs to an HTTP request goes to the process that was sent the request.
    let mut of_exchange = HashMap::new();
    let mut sessions = BTreeMap::<Option<(u64, usize)>, Vec<&Record>>::new();
    let with_handshake: HashSet<u64> =
        cassette.records.iter().filter(begins).map(|record| record.connection).collect();
    for record in &cassette.records {
        let number = handshakes.entry(record.connection).or_default();
        *number += usize::from(begins(&record));
        let connection = Some(record.connection).filter(|one| with_handshake.contains(one));
        // What precedes the first handshake goes with it.
        let latest = connection.map(|connection| (connection, (*number).max(1)));
        let own = match record.exchange {
            Some(exchange) => *of_exchange.entry((record.connection, exchange)).or_insert(latest),
            None => latest,
        };
        sessions.entry(own).or_default().push(record);
    }
    sessions.into_values().collect()
}

/// Path of a response that was too large to be kept.
pub(crate) const LARGE: &str = "response";
