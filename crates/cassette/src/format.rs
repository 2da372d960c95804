//! The file format: a header, then one line for each message, then an end.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::order::put_answers_behind_questions;
use crate::tape::find_asked;

/// Version of the format that this program writes, and the newest that it reads.
pub(crate) const VERSION: u32 = 1;

/// Beginning of some files in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Levels of a message that the parser reads in any case.
const MAX_LEVELS: usize = 100;

/// Limit on the first line.
const MAX_HEADER: u64 = 64 * 1024;

/// First line of a cassette.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CassetteHeader {
    /// Version of the format.
    pub cassette: u32,
    /// Program that recorded it.
    #[serde(default)]
    pub recorder: String,
    /// Time at which recording began, in UTC.
    #[serde(default)]
    pub recorded: String,
    /// `stdio` or `http`.
    #[serde(default)]
    pub transport: String,
    /// Command or URL of the server, masked.
    #[serde(default)]
    pub target: String,
    /// Names that were masked besides the common ones.
    #[serde(default)]
    pub masked: Vec<String>,
}

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    Client,
    Server,
}

/// A message too large to be kept, or a download beside the messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// Length.
    pub(crate) bytes: u64,
    /// Digest, in hexadecimal.
    pub(crate) sha256: String,
    /// Id of the message, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Value>,
    /// Path of a download.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
}

/// One recorded line.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Line in the file, from 1.
    pub(crate) line: usize,
    /// Milliseconds since the beginning.
    pub(crate) at: f64,
    pub(crate) from: Side,
    /// Connection, from 1.
    pub(crate) connection: u64,
    /// HTTP request that the message belongs to.
    pub(crate) exchange: Option<u64>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Message(Box<RawValue>),
    Large(Reference),
}

/// A whole recording.
#[derive(Clone, Debug)]
pub struct Cassette {
    /// First line.
    pub header: CassetteHeader,
    /// Remarks for people, such as that the recording is incomplete.
    pub remarks: Vec<String>,
    /// True if messages are missing: the recording was interrupted, stopped, cut off or too slow.
    pub is_incomplete: bool,
    pub(crate) records: Vec<Record>,
}

/// The reason a cassette cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file cannot be read.
    #[error("cannot read the cassette")]
    Io(#[from] std::io::Error),
    /// The first line is not a header.
    #[error("line 1: this is not a cassette; record one with `mcp-flow record`")]
    NotACassette,
    /// A newer program wrote it.
    #[error(
        "the cassette has format version {0}, and this program reads up to {VERSION}; update mcp-flow"
    )]
    Newer(u32),
    /// A line in the middle is damaged.
    #[error("line {line}: {problem}; remove or repair the line, or record again")]
    Damaged {
        /// Line, from 1.
        line: usize,
        /// Problem, for people.
        problem: String,
    },
}

/// Any line but the first.
#[derive(Deserialize)]
struct AnyLine {
    at: Option<f64>,
    from: Option<Side>,
    connection: Option<u64>,
    exchange: Option<u64>,
    message: Option<Box<RawValue>>,
    large: Option<Reference>,
    #[serde(default)]
    end: Option<Value>,
    #[serde(default)]
    stopped: Option<Value>,
    #[serde(default)]
    lost: Option<Value>,
}

impl Cassette {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CassetteError> {
        Self::parse(BufReader::new(std::fs::File::open(path)?))
    }

    /// Reads lines. A last line without an end is left out: recording was interrupted there.
    pub fn parse(mut input: impl BufRead) -> Result<Self, CassetteError> {
        let mut text = Vec::new();
        input.read_until(b'\n', &mut text)?;
        // Some editors begin files with it.
        if text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        #[derive(Deserialize)]
        struct Version {
            cassette: u32,
        }
        let version: Version =
            serde_json::from_slice(&text).map_err(|_| CassetteError::NotACassette)?;
        if version.cassette > VERSION {
            return Err(CassetteError::Newer(version.cassette));
        }
        let header = serde_json::from_slice(&text).map_err(|_| CassetteError::NotACassette)?;
        let mut cassette =
            Self { header, remarks: Vec::new(), is_incomplete: false, records: Vec::new() };
        let (mut line, mut is_complete) = (1, false);
        loop {
            line += 1;
            text.clear();
            if input.read_until(b'\n', &mut text)? == 0 {
                break;
            }
            let has_end = text.ends_with(b"\n");
            if text.trim_ascii().is_empty() {
                continue;
            }
            match serde_json::from_slice::<AnyLine>(&text) {
                Ok(read) => is_complete |= cassette.add(line, read)?,
                Err(_) if !has_end => break,
                Err(problem) => {
                    let problem = match problem.classify() {
                        Category::Data => format!(
                            "a member at column {} has the wrong type: `at` must be a number, and `from` \
                             \"client\" or \"server\"",
                            problem.column()
                        ),
                        _ => format!("invalid JSON at column {}", problem.column()),
                    };
                    return Err(CassetteError::Damaged { line, problem });
                }
            }
        }
        // Those of concurrent HTTP requests are written in any order.
        cassette.records.sort_by(|one, other| one.at.total_cmp(&other.at));
        cassette.records = put_answers_behind_questions(cassette.records);
        if !is_complete {
            let what = "the recording has no end; it was interrupted, and may be incomplete";
            cassette.remarks.push(what.to_owned());
            cassette.is_incomplete = true;
        }
        Ok(cassette)
    }

    /// Adds a line. Returns whether it is the end.
    fn add(&mut self, line: usize, read: AnyLine) -> Result<bool, CassetteError> {
        if let Some(stopped) = read.stopped {
            let reason = stopped["reason"].as_str().unwrap_or("no reason given");
            let reason: String = reason.chars().take(200).collect();
            self.remarks.push(format!("line {line}: recording stopped here: {reason}"));
            self.is_incomplete = true;
            return Ok(true);
        }
        if let Some(lost) = read.lost {
            let count = lost["messages"].as_u64().unwrap_or_default();
            self.remarks.push(format!("line {line}: {count} messages were left out here"));
            self.is_incomplete = true;
            return Ok(false);
        }
        if read.end.is_some() {
            return Ok(true);
        }
        let body = match (read.message, read.large) {
            (Some(message), _) if is_too_deep(&message) => {
                let problem = "the message is nested too deeply".to_owned();
                return Err(CassetteError::Damaged { line, problem });
            }
            (Some(message), _) => Body::Message(message),
            (None, Some(large)) => Body::Large(large),
            // Downloads, texts that are no messages, and what later versions add.
            (None, None) => return Ok(false),
        };
        let Some(from) = read.from else {
            let problem = "`from` must be \"client\" or \"server\"".to_owned();
            return Err(CassetteError::Damaged { line, problem });
        };
        self.records.push(Record {
            line,
            at: read.at.or(self.records.last().map(|last| last.at)).unwrap_or_default(),
            from,
            connection: read.connection.unwrap_or(1),
            exchange: read.exchange,
            body,
        });
        Ok(false)
    }

    /// Returns whether a file begins as a cassette.
    pub(crate) fn is_header(file: &std::fs::File) -> bool {
        let mut text = Vec::new();
        let mut input = BufReader::new(file).take(MAX_HEADER);
        let read = input.read_until(b'\n', &mut text);
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        read.is_ok() && serde_json::from_slice::<CassetteHeader>(text).is_ok()
    }

    /// The requests with their responses, in the order they were sent: `at`, `time`, `connection`, `from`,
    /// `method`, `params`, and `result` or `error`. Those without a response have neither.
    pub fn exchanges(&self) -> Vec<Value> {
        let mut exchanges: Vec<Value> = Vec::new();
        let mut open: HashMap<(u64, Side), Vec<Asked>> = HashMap::new();
        for record in &self.records {
            let Body::Message(raw) = &record.body else { continue };
            for message in messages_in(raw) {
                let id = message.id.clone().unwrap_or_default();
                match message.kind() {
                    Some(Kind::Request) => {
                        let asked = open.entry((record.connection, record.from)).or_default();
                        asked.push(Asked { id, exchange: record.exchange, index: exchanges.len() });
                        exchanges.push(json!({
                            "at": record.at,
                            "from": record.from,
                            "connection": record.connection,
                            "method": message.method,
                            "params": message.params,
                        }));
                    }
                    Some(Kind::Response) => {
                        let asked = match record.from {
                            Side::Client => Side::Server,
                            Side::Server => Side::Client,
                        };
                        let Some(asked) = open.get_mut(&(record.connection, asked)) else {
                            continue;
                        };
                        let requests = asked.iter().map(|one| (&one.id, one.exchange));
                        let Some(at) = find_asked(requests, &id, record.exchange) else { continue };
                        let index = asked.remove(at).index;
                        let exchange = &mut exchanges[index];
                        let asked_at = exchange["at"].as_f64().unwrap_or_default();
                        exchange["time"] = (record.at - asked_at).into();
                        match message.error {
                            Some(error) => exchange["error"] = error,
                            None => exchange["result"] = message.result.unwrap_or_default(),
                        }
                    }
                    _ => {}
                }
            }
        }
        exchanges
    }

    /// Number of messages.
    pub fn messages(&self) -> usize {
        self.records.len()
    }
}

/// A request without a response.
struct Asked {
    id: Value,
    /// HTTP request that it came by.
    exchange: Option<u64>,
    index: usize,
}

/// A JSON-RPC message, as far as needed to tell kinds apart.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Parsed {
    #[serde(default, deserialize_with = "present")]
    pub(crate) id: Option<Value>,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default)]
    pub(crate) params: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) result: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) error: Option<Value>,
}

/// Keeps `null` apart from a missing member.
fn present<'de, D: serde::Deserializer<'de>>(input: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(input).map(Some)
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Notification,
    Response,
}

impl Parsed {
    pub(crate) fn kind(&self) -> Option<Kind> {
        match (&self.id, &self.method) {
            (Some(_), Some(_)) => Some(Kind::Request),
            (None, Some(_)) => Some(Kind::Notification),
            (Some(_), None) if self.result.is_some() || self.error.is_some() => {
                Some(Kind::Response)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Returns whether a message has more levels than the parser reads. No recorder writes such messages.
fn is_too_deep(raw: &RawValue) -> bool {
    let levels = raw.get().bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    levels > MAX_LEVELS && serde_json::from_str::<Value>(raw.get()).is_err()
}

/// The messages in a value: one, or those of a batch.
pub(crate) fn messages_in(raw: &RawValue) -> Vec<Parsed> {
    let text = raw.get().trim_start();
    if text.starts_with('[') {
        serde_json::from_str(text).unwrap_or_default()
    } else {
        serde_json::from_str(text).ok().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Cassette, CassetteError};
    use crate::tape::{Step, Tape};

    const HEADER: &str = "{\"cassette\":1,\"recorder\":\"x\"}\n";

    fn read(text: &str) -> Result<Cassette, CassetteError> {
        Cassette::parse(text.as_bytes())
    }

    /// Clients without a session may use one id at the same time.
    #[test]
    fn responses_belong_to_their_http_requests() {
        let mut text = HEADER.to_owned();
        for (at, from, exchange, message) in [
            (1, "client", 1, "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}"),
            (2, "client", 2, "{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"b\"}}"),
            (3, "server", 2, "{\"id\":1,\"result\":\"b\"}"),
            (4, "server", 1, "{\"id\":1,\"result\":\"a\"}"),
        ] {
            text += &format!(
                "{{\"at\":{at},\"from\":\"{from}\",\"exchange\":{exchange},\"message\":{message}}}\n"
            );
        }
        let cassette = read(&text).unwrap();
        let exchanges = cassette.exchanges();
        assert!(
            exchanges.iter().all(|one| one["params"]["name"] == one["result"]),
            "{exchanges:?}"
        );
        let tape = Tape::new(&cassette, &[]);
        for exchange in &tape.exchanges {
            let (_, step) = &exchange.steps[0];
            let name = exchange.params["name"].clone();
            assert!(matches!(step, Step::Response { value, .. } if *value == name), "{exchange:?}");
        }
    }

    #[test]
    fn damaged_cassettes_are_named_and_truncated_ones_are_used() {
        let line = "{\"at\":1,\"from\":\"client\",\"message\":{\"method\":\"x\"}}\n";
        let good = read(&format!("{HEADER}{line}{{\"end\":{{}}}}\n")).unwrap();
        assert!(good.remarks.is_empty() && good.messages() == 1);
        for cut in [format!("{HEADER}{line}"), format!("{HEADER}{line}{{\"at\":2,\"fr")] {
            let read = read(&cut).unwrap();
            assert_eq!((read.messages(), read.remarks.len()), (1, 1), "{cut}");
        }
        let stopped = format!("{HEADER}{line}{{\"stopped\":{{\"reason\":\"disk full\"}}}}\n");
        assert!(read(&stopped).unwrap().remarks[0].contains("disk full"));
        assert!(matches!(read("{\"cassette\":9}\n"), Err(CassetteError::Newer(9))));
        for other in ["", "hello", "{}\n", "[]\n"] {
            assert!(matches!(read(other), Err(CassetteError::NotACassette)), "{other}");
        }
        assert_eq!(read(&format!("\u{feff}{HEADER}{line}")).unwrap().messages(), 1);
        let nested = |levels: usize| {
            let params = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            format!(
                "{{\"from\":\"client\",\"message\":{{\"method\":\"x\",\"params\":{params}}}}}\n"
            )
        };
        let many = format!("{{\"from\":\"client\",\"message\":[{}{{}}]}}\n", "{},".repeat(500));
        for good in [nested(100), many] {
            assert_eq!(read(&format!("{HEADER}{good}")).unwrap().messages(), 1);
        }
        let deep = nested(5000);
        for damage in
            ["oops\n", "{\"message\":{}}\n", "{\"from\":\"moon\",\"message\":{}}\n", &deep]
        {
            let text = format!("{HEADER}{damage}{line}");
            assert!(matches!(read(&text), Err(CassetteError::Damaged { line: 2, .. })), "{damage}");
            let told = read(&text).unwrap_err().to_string();
            assert!(told.starts_with("line 2: ") && !told.contains(" at line "), "{told}");
        }
    }
}
