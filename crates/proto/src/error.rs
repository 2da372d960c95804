//! Errors as they go over the wire.
//!
//! Every error carries a `domain` and a `name` in `data`, whatever its number, so a program can
//! branch on those two and needs no table of codes. Numbers from seed documents that the newest
//! revision forbids are replaced there, and the old number is kept as `legacyCode`.

use std::borrow::Cow;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::id::RequestId;
use crate::revision::Revision;
use crate::text::prefix;

/// One row of the error table: what is wrong, by name, and its number by era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose vocabulary the name belongs to.
    pub domain: &'static str,
    /// What a program branches on.
    pub name: &'static str,
    /// The number under handshake revisions.
    pub code: i32,
    /// The number under stateless revisions.
    pub stateless_code: i32,
    /// What a person reads when nothing more particular is said.
    pub message: &'static str,
}

impl Fault {
    const fn standard(name: &'static str, code: i32, message: &'static str) -> Self {
        Self { domain: "mcp", name, code, stateless_code: code, message }
    }

    const fn flow(
        name: &'static str,
        code: i32,
        stateless_code: i32,
        message: &'static str,
    ) -> Self {
        Self { domain: "flow", name, code, stateless_code, message }
    }
}

/// The text could not be parsed.
pub const PARSE_ERROR: Fault = Fault::standard("PARSE_ERROR", -32700, "Parse error");
/// The text is no request.
pub const INVALID_REQUEST: Fault = Fault::standard("INVALID_REQUEST", -32600, "Invalid Request");
/// No such method here.
pub const METHOD_NOT_FOUND: Fault = Fault::standard("METHOD_NOT_FOUND", -32601, "Method not found");
/// The params do not fit the method.
pub const INVALID_PARAMS: Fault = Fault::standard("INVALID_PARAMS", -32602, "Invalid params");
/// The server failed.
pub const INTERNAL_ERROR: Fault = Fault::standard("INTERNAL_ERROR", -32603, "Internal error");
/// A request came before `initialize`.
pub const NOT_INITIALIZED: Fault = Fault::standard("NOT_INITIALIZED", -32600, "Not initialized");
/// A second `initialize` on one connection.
pub const ALREADY_INITIALIZED: Fault =
    Fault::standard("ALREADY_INITIALIZED", -32600, "Already initialized");
/// A request came after `shutdown`.
pub const SHUTTING_DOWN: Fault = Fault::standard("SHUTTING_DOWN", -32600, "Shutting down");
/// The id belongs to a request that is still unanswered.
pub const DUPLICATE_ID: Fault = Fault::standard("DUPLICATE_ID", -32600, "Duplicate request id");
/// `tools/call` names no tool there is.
pub const UNKNOWN_TOOL: Fault = Fault::standard("UNKNOWN_TOOL", -32602, "Unknown tool");
/// `prompts/get` or `completion/complete` names no prompt there is.
pub const UNKNOWN_PROMPT: Fault = Fault::standard("UNKNOWN_PROMPT", -32602, "Unknown prompt");
/// A prompt's own function failed.
pub const PROMPT_FAILED: Fault = Fault::standard("PROMPT_FAILED", -32603, "The prompt failed");
/// A call ran past its time limit.
pub const CALL_TIMED_OUT: Fault = Fault::standard("CALL_TIMED_OUT", -32603, "Call timed out");
/// The caller asked for the call to be cancelled and to be told so.
pub const CANCELLED: Fault = Fault::flow("CANCELLED", -32000, -31105, "Cancelled");
/// As many execution streams are open as may be, and as many calls wait for one.
pub const STREAM_LIMIT_EXCEEDED: Fault =
    Fault::flow("STREAM_LIMIT_EXCEEDED", -32000, -31100, "Stream limit exceeded");
/// A result names a stream that there is not.
pub const INVALID_STREAM_REFERENCE: Fault =
    Fault::flow("INVALID_STREAM_REFERENCE", -32001, -31101, "Invalid stream reference");
/// A stream belongs to no request in flight.
pub const STREAM_INJECTION: Fault =
    Fault::flow("STREAM_INJECTION", -32002, -31102, "Stream injection");
/// A message is not in the encoding agreed on.
pub const ENCODING_MISMATCH: Fault =
    Fault::flow("ENCODING_MISMATCH", -32003, -31103, "Encoding mismatch");
/// Something needs datagrams, and this connection has none.
pub const DATAGRAM_NOT_SUPPORTED: Fault =
    Fault::flow("DATAGRAM_NOT_SUPPORTED", -32004, -31104, "Datagrams are not supported");
/// Only requests whose id is a number of 32 bits have streams (C-13).
pub const STREAM_ID_NOT_REPRESENTABLE: Fault = Fault::flow(
    "STREAM_ID_NOT_REPRESENTABLE",
    -32000,
    -31106,
    "The request id has no form in a stream header",
);
/// The caller may not do this.
pub const ACCESS_DENIED: Fault = Fault {
    domain: "mcp",
    name: "ACCESS_DENIED",
    code: -32000,
    stateless_code: -31302,
    message: "Access denied",
};
/// The caller asks for more than it may have at once.
pub const RATE_LIMITED: Fault = Fault {
    domain: "mcp",
    name: "RATE_LIMITED",
    code: -32000,
    stateless_code: -31301,
    message: "Too many requests",
};
/// The caller has as many subscriptions as it may have.
pub const TOO_MANY_SUBSCRIPTIONS: Fault =
    Fault { message: "Too many subscriptions", ..RATE_LIMITED };
/// The server holds as much as it may for all of its clients.
pub const OVERLOADED: Fault = Fault {
    domain: "mcp",
    name: "OVERLOADED",
    code: -32000,
    stateless_code: -31305,
    message: "The server is overloaded",
};
/// Messages must be signed here, and this one is not, or not as it should be (MCP-073).
pub const SIGNATURE_REFUSED: Fault = Fault {
    domain: "mcp",
    name: "SIGNATURE_REFUSED",
    code: -32000,
    stateless_code: -31306,
    message: "Signature refused",
};
/// A message is longer than the server accepts.
pub const PAYLOAD_TOO_LARGE: Fault = Fault {
    domain: "mcp",
    name: "PAYLOAD_TOO_LARGE",
    code: -32000,
    stateless_code: -31303,
    message: "Message too large",
};
/// A tool that was called as a method of its own says that it failed.
pub const TOOL_FAILED: Fault = Fault {
    domain: "mcp",
    name: "TOOL_FAILED",
    code: -32000,
    stateless_code: -31304,
    message: "The tool failed",
};
/// The protocol version asked for is not served; the numbers are those of the official text.
pub const UNSUPPORTED_PROTOCOL_VERSION: Fault = Fault {
    domain: "mcp",
    name: "UNSUPPORTED_PROTOCOL_VERSION",
    code: -32602,
    stateless_code: -32022,
    message: "Unsupported protocol version",
};

/// No resource has this URI; the numbers are those of the official text (C-32).
pub const RESOURCE_NOT_FOUND: Fault = Fault {
    domain: "mcp",
    name: "RESOURCE_NOT_FOUND",
    code: -32002,
    stateless_code: -32602,
    message: "Resource not found",
};

/// A request needs something its client did not declare; the number is that of the official text.
pub const MISSING_CLIENT_CAPABILITY: Fault = Fault::standard(
    "MISSING_CLIENT_CAPABILITY",
    -32021,
    "The server needs a capability of the client for this request",
);

/// The headers of a request do not say what its body says; the number is that of the official text.
pub const HEADER_MISMATCH: Fault = Fault::standard("HEADER_MISMATCH", -32020, "Header mismatch");

/// An error response: a number, a sentence, and data a program can use.
///
/// ```
/// use mcp_flow_proto::{Revision, RpcError};
///
/// let error = RpcError::method_not_found("nope");
/// let wire = serde_json::to_value(error.wire(Revision::V2025_11_25)).unwrap();
///
/// assert_eq!(wire["code"], -32601);
/// assert_eq!(wire["data"]["name"], "METHOD_NOT_FOUND");
/// assert_eq!(wire["data"]["method"], "nope");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    // Boxed, so that the results it is the rare half of stay small.
    parts: Box<Parts>,
}

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    fault: Fault,
    message: Cow<'static, str>,
    data: Map<String, Value>,
}

impl RpcError {
    /// An error with its standard message and no data but its name.
    pub fn new(fault: Fault) -> Self {
        let parts = Parts { fault, message: Cow::Borrowed(fault.message), data: Map::new() };
        Self { parts: Box::new(parts) }
    }

    /// Replaces the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.parts.message = message.into();
        self
    }

    /// Adds a member to `data`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parts.data.insert(name.to_owned(), value.into());
        self
    }

    /// Says in a sentence what is wrong, as `data.details`.
    #[must_use]
    pub fn details(self, details: impl Into<String>) -> Self {
        self.with("details", details.into())
    }

    /// Says when it may be tried again, as `data.retryAfterMs`.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        self.with(RETRY_AFTER, wait.max(1))
    }

    /// When it may be tried again, if that is known.
    pub fn wait(&self) -> Option<Duration> {
        self.parts.data.get(RETRY_AFTER)?.as_u64().map(Duration::from_millis)
    }

    /// -32700: the text is not well formed.
    pub fn parse_error(details: &str) -> Self {
        Self::new(PARSE_ERROR).details(details)
    }

    /// -32600: the text is well formed and no message.
    pub fn invalid_request(details: &str) -> Self {
        Self::new(INVALID_REQUEST).details(details)
    }

    /// -32601: nothing here answers to this method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND).with("method", method)
    }

    /// -32602: the params do not fit.
    pub fn invalid_params(details: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS).details(details)
    }

    /// -32603, saying nothing of the inside.
    pub fn internal() -> Self {
        Self::new(INTERNAL_ERROR)
            .details("The server failed to handle this request. Other requests are not affected.")
    }

    /// -32602: no tool has this name.
    pub fn unknown_tool(tool: &str) -> Self {
        let tool = prefix(tool, LONGEST_NAME);
        Self::new(UNKNOWN_TOOL).message(format!("Unknown tool: {tool}")).with("tool", tool)
    }

    /// No resource has this URI, or none that the caller may see.
    pub fn resource_not_found(uri: &str) -> Self {
        // One that long is none, and need not be sent back in full.
        Self::new(RESOURCE_NOT_FOUND).with("uri", prefix(uri, 2048))
    }

    /// -32602: no prompt has this name.
    pub fn unknown_prompt(prompt: &str) -> Self {
        let prompt = prefix(prompt, LONGEST_NAME);
        let message = format!("Unknown prompt: {prompt}");
        Self::new(UNKNOWN_PROMPT).message(message).with("prompt", prompt)
    }

    /// The call was stopped because its caller asked for it by `$/cancel`.
    pub fn cancelled(id: &RequestId, reason: Option<&str>) -> Self {
        let error =
            Self::new(CANCELLED).with("requestId", serde_json::to_value(id).unwrap_or_default());
        match reason {
            Some(reason) => error.with("reason", reason),
            None => error,
        }
    }

    /// A message went past the length limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(PAYLOAD_TOO_LARGE)
            .message(format!("Message too large: the limit is {limit} bytes"))
            .with("limit", limit)
    }

    /// There is no memory for a request, because of what all clients make the server hold.
    pub fn overloaded() -> Self {
        // Most of what is held is sent within a second, if its readers are there.
        Self::new(OVERLOADED)
            .retry_after(Duration::from_secs(1))
            .details("The server holds as much as it may for all clients; try again in a moment.")
    }

    /// The version asked for is not served. Both spellings of the two lists are given.
    pub fn unsupported_version(requested: &Value, supported: &[Revision]) -> Self {
        let supported: Vec<Value> =
            supported.iter().map(|revision| Value::from(revision.name())).collect();
        Self::new(UNSUPPORTED_PROTOCOL_VERSION)
            .with("supported", supported.clone())
            .with("requested", requested.clone())
            .with("supportedVersions", supported)
            .with("requestedVersion", requested.clone())
    }

    /// Puts another number on a fault whose number depends on more than the revision.
    #[must_use]
    pub fn code_for_handshake(mut self, code: i32) -> Self {
        self.parts.fault.code = code;
        self
    }

    /// The number under handshake revisions.
    pub fn code(&self) -> i32 {
        self.parts.fault.code
    }

    /// What a person reads.
    pub fn text(&self) -> &str {
        &self.parts.message
    }

    /// Whether `data` has this member beside those all errors have.
    pub fn has(&self, name: &str) -> bool {
        self.parts.data.contains_key(name)
    }

    /// The name a program branches on.
    pub fn name(&self) -> &'static str {
        self.parts.fault.name
    }

    /// The error object as a client of this revision expects it.
    pub fn wire(&self, revision: Revision) -> WireError<'_> {
        WireError { error: self, stateless: revision.is_stateless() }
    }
}

const RETRY_AFTER: &str = "retryAfterMs";

/// Longest name repeated in an error, in characters.
const LONGEST_NAME: usize = 128;

/// An [`RpcError`] with its number settled, ready to be written.
#[derive(Debug)]
pub struct WireError<'a> {
    error: &'a RpcError,
    stateless: bool,
}

impl WireError<'_> {
    /// The number that is written.
    pub fn code(&self) -> i32 {
        let fault = &self.error.parts.fault;
        if self.stateless { fault.stateless_code } else { fault.code }
    }
}

impl Serialize for WireError<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (code, message) = (self.code(), &self.error.parts.message);
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("code", &code)?;
        map.serialize_entry("message", message)?;
        map.serialize_entry("data", &WireData { error: self.error, code })?;
        map.end()
    }
}

struct WireData<'a> {
    error: &'a RpcError,
    code: i32,
}

impl Serialize for WireData<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Parts { fault, data, .. } = &*self.error.parts;
        // Only faults whose seed number is forbidden need the old one beside the new; numbers in
        // the reserved range are those of the official text, which has no seed's.
        let is_official = (-32768..=-32000).contains(&self.code);
        let renumbered = self.code != fault.code && !is_official;
        let mut map = serializer.serialize_map(Some(2 + usize::from(renumbered) + data.len()))?;
        map.serialize_entry("domain", fault.domain)?;
        map.serialize_entry("name", fault.name)?;
        if renumbered {
            map.serialize_entry("legacyCode", &fault.code)?;
        }
        for (name, value) in data {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::RpcError;
    use crate::revision::Revision;
    use crate::text::prefix;
    use serde_json::{Value, json};

    /// C-01, MCP-063: each document's number under handshake revisions, one outside the reserved
    /// range with `legacyCode` under the stateless one.
    #[test]
    fn numbers_follow_the_revision() {
        let error = RpcError::cancelled(&7.into(), Some("enough"));
        assert_eq!(
            wire(&error, Revision::V2024_11_05),
            json!({"code": -32000, "message": "Cancelled", "data": {
                "domain": "flow", "name": "CANCELLED", "requestId": 7, "reason": "enough"}})
        );
        assert_eq!(
            wire(&error, Revision::V2026_07_28),
            json!({"code": -31105, "message": "Cancelled", "data": {
                "domain": "flow", "name": "CANCELLED", "legacyCode": -32000,
                "requestId": 7, "reason": "enough"}})
        );
    }

    #[test]
    fn standard_numbers_are_the_same_everywhere() {
        for revision in Revision::ALL {
            let error = wire(&RpcError::method_not_found("x"), revision);
            assert_eq!(error["code"], -32601);
            assert_eq!(error["data"].get("legacyCode"), None);
        }
    }

    /// C-04: both spellings, in either era.
    #[test]
    fn version_errors_carry_both_spellings() {
        let error = RpcError::unsupported_version(&json!("1900-01-01"), &[Revision::V2026_07_28]);
        let error = wire(&error, Revision::V2026_07_28);
        assert_eq!(error["code"], -32022);
        assert_eq!(error["data"]["supported"], json!(["2026-07-28"]));
        assert_eq!(error["data"]["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(error["data"]["requested"], "1900-01-01");
        assert_eq!(error["data"]["requestedVersion"], "1900-01-01");
    }

    /// C-32, PAT-018: the official number of each era, and the URI.
    #[test]
    fn an_unknown_resource_is_named() {
        let error = RpcError::resource_not_found("x:/a");
        for revision in Revision::ALL {
            let code = if revision.is_stateless() { -32602 } else { -32002 };
            let data = json!({"domain": "mcp", "name": "RESOURCE_NOT_FOUND", "uri": "x:/a"});
            let expected = json!({"code": code, "message": "Resource not found", "data": data});
            assert_eq!(wire(&error, revision), expected);
        }
        let long = wire(&RpcError::resource_not_found(&"é".repeat(9999)), Revision::BASE);
        assert_eq!(long["data"]["uri"].as_str().unwrap().chars().count(), 2048);
    }

    fn wire(error: &RpcError, revision: Revision) -> Value {
        serde_json::to_value(error.wire(revision)).unwrap()
    }
}
