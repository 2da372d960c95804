//! Timelines: the journal of a session or the exchanges of a recording, step by step.

mod compare;

use serde_json::{Map, Value, json};

use crate::terminal::output::sanitize;

pub(crate) use compare::compare;

/// Events of a session or a cassette, in order.
pub(crate) struct Timeline {
    /// Title, for people.
    pub(crate) title: String,
    pub(crate) steps: Vec<TimelineStep>,
}

/// One event, and everything as it was right after it.
#[derive(Clone)]
pub(crate) struct TimelineStep {
    /// Milliseconds since 1970, or since the beginning of a recording.
    at: f64,
    /// The event in a few words, the same in every session of a flow.
    pub(crate) label: String,
    /// Value that came with it: an answer, the result of a step, a response.
    pub(crate) value: Value,
    state: String,
    question: Option<String>,
    data: Map<String, Value>,
    /// Exchanges that caused it.
    traffic: Vec<Value>,
}

impl Timeline {
    /// Reads the result of `interaction.getHistory`, with the exchanges of `admin/traffic` if there are any.
    pub(crate) fn of_history(history: &Value) -> Option<Self> {
        let entries = history["entries"].as_array()?;
        let traffic = history["traffic"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let title = format!("{} {}", text(&history["sessionId"]), text(&history["flow"]));
        let (mut open, mut cause, mut turn) = (String::new(), Cause::Start, Some(0));
        let steps = entries.iter().map(|entry| {
            let (kind, event) = entry["event"].as_object()?.iter().next()?;
            let at = event["at"].as_f64().or(event["answered"]["at"].as_f64()).unwrap_or_default();
            let (label, value) = describe(kind, event, &open);
            open = text(&entry["question"]);
            // An answer that was given ahead ends a turn without an event.
            turn = turn.filter(|_| kind != "answered_ahead");
            if ["answered", "answered_ahead", "rejected"].contains(&kind.as_str()) {
                cause = Cause::Answer(turn);
            }
            turn =
                turn.map(|turn| turn + u64::from(kind == "answered" || event["skipped"] == true));
            let message = event["prompt"]["message"].as_str();
            Some(TimelineStep {
                at,
                label,
                value,
                state: text(&entry["state"]),
                question: entry["question"].as_str().map(|key| match message {
                    Some(message) => format!("{key}: {message}"),
                    None => key.to_owned(),
                }),
                data: entry["data"].as_object().cloned().unwrap_or_default(),
                traffic: traffic.iter().filter(|one| cause.is(one, at)).cloned().collect(),
            })
        });
        Some(Self { title, steps: steps.collect::<Option<_>>()? })
    }

    /// Reads the exchanges of a recording; those about one session if its id is given.
    pub(crate) fn of_exchanges(title: String, exchanges: &[Value], session: Option<&str>) -> Self {
        let is_wanted = |exchange: &&Value| {
            session.is_none_or(|id| {
                exchange["params"]["sessionId"] == id || exchange["result"]["sessionId"] == id
            })
        };
        let steps = exchanges.iter().filter(is_wanted).map(|exchange| {
            let params = &exchange["params"];
            let names = ["name", "uri", "toolName"];
            let name = names.iter().find_map(|name| params[*name].as_str()).unwrap_or_default();
            let label = format!("{} {name}", exchange["method"].as_str().unwrap_or_default());
            let next = &exchange["result"]["next"]["prompt"];
            let value = match &exchange["error"] {
                Value::Null => exchange["result"].clone(),
                error => json!({"error": error}),
            };
            TimelineStep {
                at: exchange["at"].as_f64().unwrap_or_default(),
                label: label.trim_end().to_owned(),
                value,
                state: exchange["result"]["state"].as_str().unwrap_or_default().to_owned(),
                question: next["message"].as_str().map(str::to_owned),
                data: params.as_object().cloned().unwrap_or_default(),
                traffic: Vec::new(),
            }
        });
        Self { title, steps: steps.collect() }
    }

    /// All steps, a line each.
    pub(crate) fn overview(&self) -> String {
        let mut lines = vec![sanitize(&self.title)];
        for (index, step) in self.steps.iter().enumerate() {
            let state = match step.state.as_str() {
                "" => String::new(),
                state => format!("  [{state}]"),
            };
            let value = match &step.value {
                Value::Null => String::new(),
                value => format!("  {}", shorten(&value.to_string())),
            };
            let (number, label) = (index + 1, &step.label);
            lines.push(sanitize(&format!("{number:>4}  {}  {label}{state}{value}", time(step.at))));
        }
        lines.join("\n")
    }

    /// One step in full: state and data right after it, and the traffic that caused it.
    pub(crate) fn detail(&self, number: usize) -> Option<String> {
        let step = self.steps.get(number.checked_sub(1)?)?;
        let mut lines = vec![format!("{number} of {}: {}", self.steps.len(), step.label)];
        lines.push(format!("  at        {}", time(step.at)));
        if !step.state.is_empty() {
            lines.push(format!("  state     {}", step.state));
        }
        if let Some(question) = &step.question {
            lines.push(format!("  question  {question}"));
        }
        if !step.value.is_null() {
            lines.push(format!("  value     {}", step.value));
        }
        for (key, value) in &step.data {
            lines.push(format!("  data      {key} = {value}"));
        }
        for exchange in &step.traffic {
            let text = |name: &str| exchange[name].as_str().unwrap_or_default();
            let milliseconds = exchange["time"].as_f64().unwrap_or_default();
            let (method, params) = (text("method"), text("params"));
            lines.push(format!("  traffic   {method}  {milliseconds:.1} ms  {params}"));
        }
        Some(lines.iter().map(|line| sanitize(line)).collect::<Vec<_>>().join("\n"))
    }

    pub(crate) fn to_json(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            json!({
                "at": step.at, "label": step.label, "value": step.value, "state": step.state,
                "question": step.question, "data": step.data, "traffic": step.traffic,
            })
        });
        json!({"title": self.title, "steps": steps.collect::<Vec<_>>()})
    }
}

/// An event in a few words, and the value that came with it. `open` is the question that was open before.
fn describe(kind: &str, event: &Value, open: &str) -> (String, Value) {
    let key = event["key"].as_str().unwrap_or_default();
    match kind {
        "started" => (format!("started {}", event["flow"].as_str().unwrap_or_default()), {
            let params = event["params"].clone();
            if params.is_null() { Value::Null } else { params }
        }),
        "asked" | "queued" => (format!("{kind} {key}"), Value::Null),
        "given" => (format!("given {key}"), event["value"].clone()),
        "answered" => (format!("answered {open}"), event["value"].clone()),
        "answered_ahead" => {
            let number = &event["question"];
            (format!("answered ahead, question {number}"), event["answered"]["value"].clone())
        }
        "rejected" => (format!("rejected answer to {open}"), event["violation"]["error"].clone()),
        "withdrawn" => (format!("withdrew question {}", event["question"]), Value::Null),
        "step_begun" => (format!("began step {key}"), Value::Null),
        "step_done" => match event["outcome"].get("failed") {
            Some(failed) => (format!("step {key} failed"), failed.clone()),
            None => (format!("step {key}"), event["outcome"]["ok"].clone()),
        },
        "signal_awaited" => (format!("awaits signal {key}"), Value::Null),
        "signalled" => (format!("signal {key}"), event["value"].clone()),
        "signal_taken" => (format!("took signal {}", event["signal"]), Value::Null),
        "signal_wait_dropped" => {
            (format!("dropped wait {} for a signal", event["wait"]), Value::Null)
        }
        "link_made" => (format!("made link for {key}"), Value::Null),
        "link_revoked" => (format!("revoked link {}", event["link"]), Value::Null),
        "data_set" => (format!("set {key}"), event["value"].clone()),
        "end_begun" => ("began to end".to_owned(), event["ending"].clone()),
        "ended" => ("ended".to_owned(), event["ending"].clone()),
        other => (other.replace('_', " "), Value::Null),
    }
}

/// Request after which an event happened.
enum Cause {
    Start,
    /// The answer to the question of a turn, if the turn is known.
    Answer(Option<u64>),
}

impl Cause {
    /// Returns whether this is an exchange that was under way at a time. One call follows another too
    /// closely to be told apart by time alone.
    fn is(&self, exchange: &Value, at: f64) -> bool {
        let params = || {
            let text = exchange["params"].as_str().unwrap_or_default();
            serde_json::from_str::<Value>(text).unwrap_or_default()
        };
        let fits = match (self, exchange["method"].as_str()) {
            (Self::Answer(_), Some("interaction.start")) => false,
            (Self::Start, Some("interaction.respond")) => false,
            (Self::Answer(turn), Some("interaction.respond")) => {
                // Answers need not name their turn.
                let own = params()["response"]["turnId"].as_u64();
                turn.is_none_or(|turn| own.is_none_or(|own| own == turn))
            }
            _ => true,
        };
        fits && is_during(exchange, at)
    }
}

/// Returns whether an exchange was under way at a time.
fn is_during(exchange: &Value, at: f64) -> bool {
    let end = exchange["at"].as_f64().unwrap_or_default();
    let start = end - exchange["time"].as_f64().unwrap_or_default();
    // The clocks of the two have a resolution of a millisecond.
    (start - 2.0..=end + 2.0).contains(&at)
}

fn shorten(text: &str) -> String {
    mcp_flow::client::sanitize::text(text).chars().take(100).collect()
}

/// A date and time in UTC, or the time since the beginning of a recording.
fn time(millis: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a time in this era fits")]
    let whole = millis as i64;
    match chrono::DateTime::from_timestamp_millis(whole) {
        Some(time) if millis > 1e11 => time.format("%Y-%m-%d %H:%M:%S%.3f").to_string(),
        _ => format!("{:>10.3} s", millis / 1000.0),
    }
}
