//! A cassette as a player needs it: each request with everything that followed from it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::compare::{Variations, fits_masked};
use crate::format::{Body, Cassette, Kind, Parsed, Record, Side, messages_in};
use crate::mask::{MASK, Masker};

/// Recorded exchanges by what was asked.
#[derive(Debug)]
pub struct Tape {
    pub(crate) exchanges: Vec<Exchange>,
    /// Exchanges by key, in recorded order.
    pub(crate) by_key: HashMap<String, Vec<usize>>,
    /// Exchanges with masked params, in recorded order.
    masked: Vec<usize>,
    pub(crate) masker: Masker,
    pub(crate) variations: Variations,
}

/// A message of the client, and the messages of the server that belong to it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Line of the client's message.
    pub(crate) line: usize,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) is_request: bool,
    /// True if the client cancelled it, so that there may be no response.
    pub(crate) is_cancelled: bool,
    /// Progress token that the client gave.
    pub(crate) token: Option<Value>,
    /// Messages of the server, each after a delay.
    pub(crate) steps: Vec<(Duration, Step)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The response, as its member `result` or `error`.
    Response {
        member: &'static str,
        value: Value,
    },
    /// A response that was too large to be kept.
    LargeResponse {
        sha256: String,
    },
    /// A request to the client. What follows waits for the answer.
    Question {
        method: String,
        params: Option<Value>,
    },
    Notification {
        method: String,
        params: Option<Value>,
    },
}

/// State of one recorded connection while it is read.
#[derive(Default)]
struct Open {
    /// Requests without a response: id, exchange, and the HTTP request it came by.
    requests: Vec<(Value, usize, Option<u64>)>,
    /// The last message of the client.
    last: Option<usize>,
}

impl Tape {
    /// Orders a cassette by what was asked. `vary` names members of params that do not matter.
    pub fn new(cassette: &Cassette, vary: &[String]) -> Self {
        let mut tape = Self {
            exchanges: Vec::new(),
            by_key: HashMap::new(),
            masked: Vec::new(),
            masker: Masker::new(&cassette.header.masked),
            variations: Variations::named(vary),
        };
        let mut open: HashMap<u64, Open> = HashMap::new();
        let mut times: Vec<f64> = Vec::new();
        for record in &cassette.records {
            let open = open.entry(record.connection).or_default();
            tape.add(record, open, &mut times);
        }
        for (index, exchange) in tape.exchanges.iter().enumerate() {
            let key = key(&exchange.method, &exchange.params, &tape.variations);
            if key.contains(MASK) {
                tape.masked.push(index);
            }
            tape.by_key.entry(key).or_default().push(index);
        }
        tape
    }

    /// Finds the exchanges whose params are these apart from what was masked.
    pub(crate) fn find_masked(&self, method: &str, params: &Value) -> Vec<usize> {
        let params = essential(method, params);
        let fits = |index: &usize| {
            let exchange = &self.exchanges[*index];
            let recorded = essential(&exchange.method, &exchange.params);
            exchange.method == method && fits_masked(&recorded, &params, &self.variations)
        };
        self.masked.iter().copied().filter(fits).collect()
    }

    /// Number of requests.
    pub fn requests(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.is_request).count()
    }

    fn add(&mut self, record: &Record, open: &mut Open, times: &mut Vec<f64>) {
        let message = match &record.body {
            Body::Message(message) => message,
            Body::Large(large) => {
                let id = large.id.clone().unwrap_or_default();
                if record.from == Side::Server
                    && let Some(index) = take_request(open, &id, record.exchange)
                {
                    let step = Step::LargeResponse { sha256: large.sha256.clone() };
                    self.push(index, record.at, step, times);
                }
                return;
            }
        };
        for message in messages_in(message) {
            match record.from {
                Side::Client => self.add_from_client(record, message, open, times),
                Side::Server => self.add_from_server(record, message, open, times),
            }
        }
    }

    fn add_from_client(
        &mut self,
        record: &Record,
        message: Parsed,
        open: &mut Open,
        times: &mut Vec<f64>,
    ) {
        let kind = message.kind();
        let (Some(Kind::Request | Kind::Notification), Some(method)) = (kind, message.method)
        else {
            return;
        };
        let params = message.params.unwrap_or_else(|| Value::Object(Map::new()));
        if method == "notifications/cancelled" {
            let cancelled =
                open.requests.iter().filter(|(id, ..)| Some(id) == params.get("requestId"));
            for (_, index, _) in cancelled {
                if let Some(exchange) = self.exchanges.get_mut(*index) {
                    exchange.is_cancelled = true;
                }
            }
        }
        let token = params.pointer("/_meta/progressToken").cloned();
        let index = self.exchanges.len();
        let is_request = kind == Some(Kind::Request);
        if is_request {
            open.requests.push((message.id.unwrap_or_default(), index, record.exchange));
        }
        open.last = Some(index);
        times.push(record.at);
        let (line, steps) = (record.line, Vec::new());
        self.exchanges.push(Exchange {
            line,
            method,
            params,
            is_request,
            is_cancelled: false,
            token,
            steps,
        });
    }

    fn add_from_server(
        &mut self,
        record: &Record,
        message: Parsed,
        open: &mut Open,
        times: &mut [f64],
    ) {
        match message.kind() {
            Some(Kind::Response) => {
                let id = message.id.unwrap_or_default();
                let Some(index) = take_request(open, &id, record.exchange) else { return };
                let step = match (message.result, message.error) {
                    (_, Some(error)) => Step::Response { member: "error", value: error },
                    (result, None) => {
                        Step::Response { member: "result", value: result.unwrap_or_default() }
                    }
                };
                self.push(index, record.at, step, times);
            }
            Some(kind @ (Kind::Request | Kind::Notification)) => {
                let (method, params) = (message.method.unwrap_or_default(), message.params);
                let token = params.as_ref().and_then(|params| params.get("progressToken"));
                let Some(index) = self.cause(record, open, token) else { return };
                let step = match kind {
                    Kind::Request => Step::Question { method, params },
                    _ => Step::Notification { method, params },
                };
                self.push(index, record.at, step, times);
            }
            None => {}
        }
    }

    /// The exchange that a message of the server belongs to: by its progress token, by its HTTP
    /// request, or else the last one that is open.
    fn cause(&self, record: &Record, open: &Open, token: Option<&Value>) -> Option<usize> {
        let requests = open.requests.iter().rev();
        let by_token = token.and_then(|token| {
            let mut all = self.exchanges.iter().enumerate().rev();
            let found = all.find(|(_, exchange)| exchange.token.as_ref() == Some(token));
            found.map(|(index, _)| index)
        });
        let by_exchange = record.exchange.and_then(|number| {
            let mut requests = requests.clone();
            requests.find(|(_, _, own)| *own == Some(number)).map(|(_, index, _)| *index)
        });
        let mut requests = requests.clone();
        let latest = || requests.next().map(|(_, index, _)| *index);
        by_token.or(by_exchange).or_else(latest).or(open.last)
    }

    /// Adds a step. `times` has the time of each exchange's last step.
    fn push(&mut self, index: usize, at: f64, step: Step, times: &mut [f64]) {
        let (Some(exchange), Some(last)) = (self.exchanges.get_mut(index), times.get_mut(index))
        else {
            return;
        };
        let delay = ((at - *last) / 1000.0).clamp(0.0, MAX_DELAY.as_secs_f64());
        *last = at;
        exchange.steps.push((Duration::from_secs_f64(delay), step));
    }
}

/// Takes the request that a response answers: the one of the same HTTP request, because clients without a
/// session may use one id at the same time.
fn take_request(open: &mut Open, id: &Value, exchange: Option<u64>) -> Option<usize> {
    let requests = open.requests.iter().map(|(known, _, own)| (known, *own));
    let at = find_asked(requests, id, exchange)?;
    Some(open.requests.remove(at).1)
}

/// Position of the request with an id that a response in an HTTP request answers.
pub(crate) fn find_asked<'a>(
    requests: impl Iterator<Item = (&'a Value, Option<u64>)> + Clone,
    id: &Value,
    exchange: Option<u64>,
) -> Option<usize> {
    let same = |own: Option<u64>| exchange.is_some() && own == exchange;
    let mut all = requests.clone();
    // Events of a session are answers too, and have no HTTP request of their own.
    all.position(|(known, own)| known == id && same(own))
        .or_else(|| requests.clone().position(|(known, _)| known == id))
}

/// The text by which requests are matched: the method, and the params without what differs from client
/// to client.
pub(crate) fn key(method: &str, params: &Value, variations: &Variations) -> String {
    let mut key = method.to_owned();
    // The client introduces itself, which says nothing about what it asks for.
    if !["initialize", "server/discover", "ping"].contains(&method) {
        key.push(' ');
        write_canonical(&essential(method, params), variations, &mut key);
    }
    key
}

/// The params of a request without what says nothing about it: metadata, arguments that are absent or empty,
/// and the time at which an answer was given.
fn essential<'a>(method: &str, params: &'a Value) -> Cow<'a, Value> {
    let mut params = Cow::Borrowed(params);
    if params.is_null() {
        return Cow::Owned(Value::Object(Map::new()));
    }
    let is_nothing = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    for (parent, name) in [("", "_meta"), ("", "arguments"), ("/response", "timestamp")] {
        let Some(value) = params.pointer(parent).and_then(|parent| parent.get(name)) else {
            continue;
        };
        let is_left_out = match name {
            "arguments" => is_nothing(value),
            "timestamp" => method.starts_with("interaction."),
            _ => true,
        };
        if is_left_out && let Some(parent) = params.to_mut().pointer_mut(parent) {
            parent.as_object_mut().map(|members| members.remove(name));
        }
    }
    params
}

/// Writes JSON with sorted members, without what varies.
fn write_canonical(value: &Value, variations: &Variations, out: &mut String) {
    match value {
        Value::Object(members) => {
            let is_kept = |name: &str| !variations.has_name(name);
            let mut members: Vec<_> = members.iter().filter(|(name, _)| is_kept(name)).collect();
            members.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in members {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(value, variations, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for value in values {
                write_canonical(value, variations, out);
                out.push(',');
            }
            out.push(']');
        }
        // 1 and 1.0 are one number in JSON.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                out.push_str(&format!("{float:.0}"));
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

/// Longest delay that is replayed.
const MAX_DELAY: Duration = Duration::from_secs(600);
