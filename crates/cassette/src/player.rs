//! Answers as recorded. Without I/O: messages in, messages out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::format::{Kind, Parsed};
use crate::nearest::{describe, nearest};
use crate::tape::{Step, Tape, key};

/// Options of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayOptions {
    /// Requests must come in the recorded order. By default any order will do, and what was asked once
    /// may be asked again.
    pub is_ordered: bool,
    /// Answers take as long as they took.
    pub has_delays: bool,
}

/// Plays a tape to one client.
#[derive(Debug)]
pub struct Player {
    tape: Arc<Tape>,
    options: ReplayOptions,
    /// Next occurrence of each key.
    used: HashMap<String, usize>,
    /// Next exchange, if the order matters.
    next: usize,
    /// Requests with steps to come, by number.
    runs: HashMap<u64, Run>,
    last_run: u64,
    /// Questions that the client has not answered, by id, with the run that waits.
    questions: HashMap<String, u64>,
    last_question: u64,
}

#[derive(Debug)]
struct Run {
    exchange: usize,
    step: usize,
    id: Value,
    token: Option<Value>,
}

/// Effect of a message of the client.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Numbers of the requests in it.
    pub(crate) runs: Vec<u64>,
    /// Messages that the server sends, in this order.
    pub(crate) replies: Vec<Reply>,
    /// Ids of requests that the client has cancelled: what waits for them is not sent.
    pub(crate) cancelled: Vec<Value>,
}

impl From<Vec<Reply>> for Received {
    fn from(replies: Vec<Reply>) -> Self {
        Self { replies, ..Self::default() }
    }
}

/// A message to the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    /// Number and id of the request that it belongs to.
    pub(crate) run: u64,
    pub(crate) request: Value,
    pub(crate) delay: Duration,
    pub(crate) message: Value,
    /// True for the response to the request.
    pub(crate) is_response: bool,
}

impl Player {
    /// Starts at the beginning of a tape.
    pub fn new(tape: Arc<Tape>, options: ReplayOptions) -> Self {
        Self {
            tape,
            options,
            used: HashMap::new(),
            next: 0,
            runs: HashMap::new(),
            last_run: 0,
            questions: HashMap::new(),
            last_question: 0,
        }
    }

    /// Takes a message of the client, or a batch, and returns what the server sends.
    pub(crate) fn receive(&mut self, message: &[u8]) -> Received {
        match serde_json::from_slice::<Value>(message) {
            Ok(Value::Array(messages)) if !messages.is_empty() => self.receive_batch(messages),
            Ok(message) => self.receive_one(message),
            Err(_) => {
                let error = json!({"code": -32700, "message": "Parse error"});
                vec![self.refusal(0, Value::Null, error)].into()
            }
        }
    }

    /// Takes the messages of a batch. Responses that are due at once are a batch as well.
    fn receive_batch(&mut self, messages: Vec<Value>) -> Received {
        let mut all = Received::default();
        for message in messages {
            let Received { runs, replies, cancelled } = self.receive_one(message);
            all.replies.retain(|reply| !cancelled.contains(&reply.request));
            all.runs.extend(runs);
            all.replies.extend(replies);
            all.cancelled.extend(cancelled);
        }
        let is_due = |reply: &Reply| reply.is_response && reply.delay.is_zero();
        let [first, ..] = &*all.replies else { return all };
        if all.replies.iter().all(is_due) {
            let (run, request) = (first.run, Value::Null);
            let message = all.replies.drain(..).map(|reply| reply.message).collect();
            let (delay, is_response) = (Duration::ZERO, true);
            all.replies.push(Reply { run, request, delay, message, is_response });
        }
        all
    }

    fn receive_one(&mut self, message: Value) -> Received {
        // An array would be read as the members in their order.
        let parsed = if message.is_object() { Parsed::deserialize(message).ok() } else { None };
        let Some(parsed) = parsed else {
            let error = json!({"code": -32600, "message": "Invalid Request"});
            return vec![self.refusal(0, Value::Null, error)].into();
        };
        match (parsed.kind(), parsed.method) {
            (Some(Kind::Request), Some(method)) => {
                let id = parsed.id.unwrap_or_default();
                let params = parsed.params.unwrap_or_else(|| Value::Object(Map::new()));
                self.last_run += 1;
                let replies = self.start(self.last_run, &method, params, id);
                Received { runs: vec![self.last_run], replies, cancelled: Vec::new() }
            }
            (Some(Kind::Notification), Some(method)) => {
                let params = parsed.params.unwrap_or_else(|| Value::Object(Map::new()));
                let is_cancelled = method == "notifications/cancelled";
                let cancelled = params.get("requestId").filter(|_| is_cancelled).cloned();
                if cancelled.is_some() {
                    self.runs.retain(|_, run| Some(&run.id) != cancelled.as_ref());
                }
                // What followed from a notification follows again; others have no effect.
                let replies = match self.find(&method, &params, true) {
                    Ok(exchange) => {
                        self.last_run += 1;
                        let run = Run { exchange, step: 0, id: Value::Null, token: None };
                        self.runs.insert(self.last_run, run);
                        self.advance(self.last_run)
                    }
                    Err(_) => Vec::new(),
                };
                Received { runs: Vec::new(), replies, cancelled: cancelled.into_iter().collect() }
            }
            (Some(Kind::Response), _) => {
                let id = parsed.id.unwrap_or_default();
                let waiting = id.as_str().and_then(|id| self.questions.remove(id));
                waiting.map(|run| self.advance(run)).unwrap_or_default().into()
            }
            _ => {
                let error = json!({"code": -32600, "message": "Invalid Request"});
                vec![self.refusal(0, parsed.id.unwrap_or_default(), error)].into()
            }
        }
    }

    fn start(&mut self, run: u64, method: &str, params: Value, id: Value) -> Vec<Reply> {
        let token = params.pointer("/_meta/progressToken").cloned();
        match self.find(method, &params, false) {
            Ok(exchange) => {
                self.runs.insert(run, Run { exchange, step: 0, id, token });
                self.advance(run)
            }
            Err(error) => {
                let result = match method {
                    "ping" => Some(json!({})),
                    "initialize" => self.tape.handshake(&params),
                    _ => None,
                };
                let Some(result) = result else { return vec![self.refusal(run, id, error)] };
                let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
                vec![Reply { run, request: id, delay: Duration::ZERO, message, is_response: true }]
            }
        }
    }

    fn refusal(&self, run: u64, id: Value, error: Value) -> Reply {
        let message = json!({"jsonrpc": "2.0", "id": id, "error": error});
        Reply { run, request: id, delay: Duration::ZERO, message, is_response: true }
    }

    /// Finds the exchange to replay, or the error that says which one is near.
    fn find(
        &mut self,
        method: &str,
        params: &Value,
        is_notification: bool,
    ) -> Result<usize, Value> {
        let tape = self.tape.clone();
        let mut params = params.clone();
        // What was masked in the recording is masked in what is compared with it.
        tape.masker.mask(&mut params);
        let mut wanted = key(method, &params, &tape.variations);
        let mut masked = Vec::new();
        let found = tape.by_key.get(&wanted).unwrap_or_else(|| {
            // Some of it may have been masked for what was said before, which this client need not say.
            masked = tape.find_masked(method, &params);
            if let Some(first) = masked.first().map(|index| &tape.exchanges[*index]) {
                wanted = key(method, &first.params, &tape.variations);
            }
            &masked
        });
        if found.is_empty() && is_notification {
            return Err(Value::Null);
        }
        let mut fitting = found.iter().copied();
        if is_notification {
            let used = self.used.entry(wanted).or_default();
            let chosen = found.get(*used).copied().ok_or(Value::Null);
            *used += 1;
            return chosen;
        }
        let is_expected = !["ping", "initialize", "server/discover"].contains(&method);
        if self.options.is_ordered && is_expected {
            let expected =
                tape.exchanges.iter().enumerate().skip(self.next).find(|(_, exchange)| {
                    let introduces = ["ping", "initialize", "server/discover"]
                        .contains(&exchange.method.as_str());
                    exchange.is_request && !introduces
                });
            return match expected {
                Some((index, _)) if fitting.any(|other| other == index) => {
                    self.next = index + 1;
                    Ok(index)
                }
                Some((_, exchange)) => {
                    let next = describe(&exchange.method, &exchange.params);
                    let next = format!("next in the recording is {next} (line {})", exchange.line);
                    Err(out_of_order(method, &params, &next))
                }
                None => Err(out_of_order(method, &params, "the recording has ended")),
            };
        }
        if method == "initialize" {
            // A client of another revision gets the answer to the nearest.
            let version = params.get("protocolVersion");
            let same =
                |index: &usize| tape.exchanges[*index].params.get("protocolVersion") == version;
            let chosen = found.iter().find(|index| same(index)).or(found.first());
            return chosen.copied().ok_or_else(|| not_recorded(&tape, method, &params));
        }
        let Some(last) = found.last() else { return Err(not_recorded(&tape, method, &params)) };
        let used = self.used.entry(wanted).or_default();
        // The last one is repeated.
        let chosen = found.get(*used).unwrap_or(last);
        *used += 1;
        Ok(*chosen)
    }

    /// Plays the steps of a run up to the next question.
    fn advance(&mut self, number: u64) -> Vec<Reply> {
        let Some(mut run) = self.runs.remove(&number) else { return Vec::new() };
        let tape = self.tape.clone();
        let Some(exchange) = tape.exchanges.get(run.exchange) else { return Vec::new() };
        let mut replies = Vec::new();
        while let Some((delay, step)) = exchange.steps.get(run.step) {
            run.step += 1;
            let delay = if self.options.has_delays { *delay } else { Duration::ZERO };
            let mut push = |message: Value, is_response: bool| {
                let request = run.id.clone();
                replies.push(Reply { run: number, request, delay, message, is_response });
            };
            match step {
                Step::Response { member, value } => {
                    let mut message = json!({"jsonrpc": "2.0", "id": run.id});
                    message[*member] = value.clone();
                    push(message, true);
                }
                Step::LargeResponse { .. } => {
                    let error = json!({"code": -32603, "message": "the recorded response was too \
                        large to be kept", "data": {"domain": "mcp", "name": "NOT_KEPT"}});
                    push(json!({"jsonrpc": "2.0", "id": run.id, "error": error}), true);
                }
                Step::Notification { method, params } => {
                    let mut params = params.clone();
                    if let Some(params) =
                        params.as_mut().filter(|_| method == "notifications/progress")
                    {
                        // A client that wants no progress gets none.
                        let Some(token) = &run.token else { continue };
                        params["progressToken"] = token.clone();
                    }
                    let mut message = json!({"jsonrpc": "2.0", "method": method});
                    if let Some(params) = params {
                        message["params"] = params;
                    }
                    push(message, false);
                }
                Step::Question { method, params } => {
                    self.last_question += 1;
                    let id = format!("replay-{}", self.last_question);
                    let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
                    if let Some(params) = params {
                        message["params"] = params.clone();
                    }
                    push(message, false);
                    self.questions.insert(id, number);
                    self.runs.insert(number, run);
                    return replies;
                }
            }
        }
        // A recording that was interrupted lacks responses. Subscriptions have none while they last.
        let has_response = exchange
            .steps
            .iter()
            .any(|(_, step)| matches!(step, Step::Response { .. } | Step::LargeResponse { .. }));
        let is_open = exchange.is_cancelled || exchange.method == "subscriptions/listen";
        if exchange.is_request && !has_response && !is_open {
            let message =
                format!("the recording has no response to this request (line {})", exchange.line);
            let error = json!({"code": -32603, "message": message,
                "data": {"domain": "mcp", "name": "NOT_RECORDED"}});
            replies.push(self.refusal(number, run.id, error));
        }
        replies
    }
}

fn not_recorded(tape: &Tape, method: &str, params: &Value) -> Value {
    let near = nearest(tape, method, params);
    let is_known = tape.exchanges.iter().any(|exchange| exchange.method == method);
    let code = if is_known { -32602 } else { -32601 };
    let asked = describe(method, params);
    let (text, nearest) = match near {
        Some(near) => {
            let text = describe(&near.method, &near.params);
            let message = format!(
                "not recorded: {asked}; the nearest recorded request is {text} (line {})",
                near.line
            );
            (message, json!({"line": near.line, "method": near.method, "params": near.params}))
        }
        None => (format!("not recorded: {asked}; no request was recorded"), Value::Null),
    };
    let data = json!({"domain": "mcp", "name": "NOT_RECORDED", "nearest": nearest});
    json!({"code": code, "message": text, "data": data})
}

fn out_of_order(method: &str, params: &Value, next: &str) -> Value {
    let message = format!("out of order: {}; {next}", describe(method, params));
    json!({"code": -32602, "message": message, "data": {"domain": "mcp", "name": "OUT_OF_ORDER"}})
}

#[cfg(test)]
mod tests;
