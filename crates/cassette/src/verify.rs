//! Plays the client's side of a cassette against a real server, and compares.
//!
//! The recorded messages are gone through in order: those of the client are sent, for those of the
//! server the live ones are awaited. So concurrent requests, questions and cancellations happen as they
//! did. Notifications are not compared: their number and order depend on time.

mod live;
mod session;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::compare::{CommonPatterns, Comparison, Difference, Variations};
use crate::format::{Body, Cassette, Record, Side, messages_in};
use crate::nearest::name_of;
use crate::renamed::Renamed;
use crate::tape::{Exchange, Step, Tape, key};
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
    /// True if the recording lacks messages, so that less was compared than there was.
    pub is_incomplete: bool,
    /// Output of the server beside messages that belong to the recording.
    pub problems: Vec<String>,
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
        self.differing() == 0 && !self.is_incomplete && self.problems.is_empty()
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
        let none = Self::default();
        for (one, other) in pairs(&first, &second) {
            let request = request_name(&one.method, &one.params);
            for ((path, before), (_, now)) in compared(one).into_iter().zip(compared(other)) {
                let mut comparison = Comparison {
                    variations: &none,
                    request: &request,
                    is_strict: false,
                    patterns: &patterns,
                    differences: Vec::new(),
                    renamed: Renamed::default(),
                };
                comparison.compare(&path, &before, &now);
                for difference in comparison.differences {
                    self.learn(&request, &difference.path);
                }
            }
        }
    }
}

/// Pairs the requests of two recordings: those with the same params, and of the others those about the same,
/// in their order. Params differ where they name what varies.
fn pairs<'a>(first: &'a Tape, second: &'a Tape) -> Vec<(&'a Exchange, &'a Exchange)> {
    let requests = |tape: &'a Tape| -> Vec<&'a Exchange> {
        tape.exchanges.iter().filter(|exchange| exchange.is_request).collect()
    };
    let (mut ones, mut others, mut pairs) = (requests(first), requests(second), Vec::new());
    let names: [fn(&Exchange) -> String; 3] = [
        |exchange| key(&exchange.method, &exchange.params, &Variations::default()),
        |exchange| request_name(&exchange.method, &exchange.params),
        |exchange| exchange.method.clone(),
    ];
    for name in names {
        let mut by_name: HashMap<String, VecDeque<&Exchange>> = HashMap::new();
        for other in others {
            by_name.entry(name(other)).or_default().push_back(other);
        }
        ones.retain(|one| {
            let other = by_name.get_mut(&name(one)).and_then(VecDeque::pop_front);
            pairs.extend(other.map(|other| (*one, other)));
            other.is_none()
        });
        others = by_name.into_values().flatten().collect();
        others.sort_by_key(|other| other.line);
    }
    pairs
}

/// The questions and the response that followed from a request, with the paths they are compared at.
fn compared(exchange: &Exchange) -> Vec<(String, Value)> {
    let part = |(_, step): &(Duration, Step)| match step {
        Step::Response { member, value } => Some(((*member).to_owned(), value.clone())),
        Step::LargeResponse { sha256 } => Some((LARGE.to_owned(), json!(sha256))),
        Step::Question { method, params } => {
            Some((method.clone(), params.clone().unwrap_or_else(|| json!({}))))
        }
        Step::Notification { .. } => None,
    };
    exchange.steps.iter().filter_map(part).collect()
}

/// Method, and the name of what it is about.
fn request_name(method: &str, params: &Value) -> String {
    format!("{method} {}", name_of(params).unwrap_or_default())
}

/// Verifies that a server does as recorded. It is started for each recorded handshake, and once for all
/// connections without one, which are requests of stateless clients.
pub async fn verify(
    cassette: &Cassette,
    command: &[OsString],
    options: &VerifyOptions,
) -> io::Result<VerifyReport> {
    let mut report =
        VerifyReport { is_incomplete: cassette.is_incomplete, ..VerifyReport::default() };
    let patterns = CommonPatterns::new();
    // A state goes from one connection to another.
    let mut renamed = Renamed::default();
    for records in sessions_of(cassette) {
        let mut session = Session::start(command, options, &patterns, &mut renamed)?;
        for record in records {
            session.step(record).await;
        }
        session.finish(&mut report).await;
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
