//! Error responses and the table of their codes.
//!
//! Every error carries a `domain` and a `name` in `data`, independent of its code, so programs
//! branch on those two and need no table of codes. Codes of the seed documents that the newest
//! revision forbids are replaced there, and the old code is kept as `legacyCode`.

use std::borrow::Cow;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::id::RequestId;
use crate::revision::Revision;
use crate::text::prefix;

/// A row of the error table: name, domain, and the code by protocol era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcErrorKind {
    /// The namespace of the name.
    pub domain: &'static str,
    /// The name programs branch on.
    pub name: &'static str,
    /// The code under handshake revisions.
    pub code: i32,
    /// The code under stateless revisions.
    pub stateless_code: i32,
    /// The default message.
    pub message: &'static str,
}

impl RpcErrorKind {
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

/// The text cannot be parsed.
pub const PARSE_ERROR: RpcErrorKind = RpcErrorKind::standard("PARSE_ERROR", -32700, "Parse error");
/// The text is not a valid request.
pub const INVALID_REQUEST: RpcErrorKind =
    RpcErrorKind::standard("INVALID_REQUEST", -32600, "Invalid Request");
/// The method is not supported.
pub const METHOD_NOT_FOUND: RpcErrorKind =
    RpcErrorKind::standard("METHOD_NOT_FOUND", -32601, "Method not found");
/// The params are invalid for the method.
pub const INVALID_PARAMS: RpcErrorKind =
    RpcErrorKind::standard("INVALID_PARAMS", -32602, "Invalid params");
/// The server failed.
pub const INTERNAL_ERROR: RpcErrorKind =
    RpcErrorKind::standard("INTERNAL_ERROR", -32603, "Internal error");
/// A request was sent before `initialize`.
pub const NOT_INITIALIZED: RpcErrorKind =
    RpcErrorKind::standard("NOT_INITIALIZED", -32600, "Not initialized");
/// `initialize` was sent twice on one connection.
pub const ALREADY_INITIALIZED: RpcErrorKind =
    RpcErrorKind::standard("ALREADY_INITIALIZED", -32600, "Already initialized");
/// A request was sent after `shutdown`.
pub const SHUTTING_DOWN: RpcErrorKind =
    RpcErrorKind::standard("SHUTTING_DOWN", -32600, "Shutting down");
/// The id belongs to a request that is still in flight.
pub const DUPLICATE_ID: RpcErrorKind =
    RpcErrorKind::standard("DUPLICATE_ID", -32600, "Duplicate request id");
/// `tools/call` names an unknown tool.
pub const UNKNOWN_TOOL: RpcErrorKind =
    RpcErrorKind::standard("UNKNOWN_TOOL", -32602, "Unknown tool");
/// `prompts/get` or `completion/complete` names an unknown prompt.
pub const UNKNOWN_PROMPT: RpcErrorKind =
    RpcErrorKind::standard("UNKNOWN_PROMPT", -32602, "Unknown prompt");
/// The prompt's function failed.
pub const PROMPT_FAILED: RpcErrorKind =
    RpcErrorKind::standard("PROMPT_FAILED", -32603, "The prompt failed");
/// The call exceeded its time limit.
pub const CALL_TIMED_OUT: RpcErrorKind =
    RpcErrorKind::standard("CALL_TIMED_OUT", -32603, "Call timed out");
/// The call was cancelled by `$/cancel`, which asks for a response.
pub const CANCELLED: RpcErrorKind = RpcErrorKind::flow("CANCELLED", -32000, -31105, "Cancelled");
/// All execution streams are in use, and the queue of calls waiting for one is full.
pub const STREAM_LIMIT_EXCEEDED: RpcErrorKind =
    RpcErrorKind::flow("STREAM_LIMIT_EXCEEDED", -32000, -31100, "Stream limit exceeded");
/// The result names a stream that does not exist.
pub const INVALID_STREAM_REFERENCE: RpcErrorKind =
    RpcErrorKind::flow("INVALID_STREAM_REFERENCE", -32001, -31101, "Invalid stream reference");
/// A stream belongs to no request in flight.
pub const STREAM_INJECTION: RpcErrorKind =
    RpcErrorKind::flow("STREAM_INJECTION", -32002, -31102, "Stream injection");
/// The message is not in the negotiated encoding.
pub const ENCODING_MISMATCH: RpcErrorKind =
    RpcErrorKind::flow("ENCODING_MISMATCH", -32003, -31103, "Encoding mismatch");
/// Datagrams are required, and the connection has none.
pub const DATAGRAM_NOT_SUPPORTED: RpcErrorKind =
    RpcErrorKind::flow("DATAGRAM_NOT_SUPPORTED", -32004, -31104, "Datagrams are not supported");
/// Streams require a request id that is a 32-bit number (C-13).
pub const STREAM_ID_NOT_REPRESENTABLE: RpcErrorKind = RpcErrorKind::flow(
    "STREAM_ID_NOT_REPRESENTABLE",
    -32000,
    -31106,
    "The request id does not fit into a stream header",
);
/// The caller is not authorized.
pub const ACCESS_DENIED: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "ACCESS_DENIED",
    code: -32000,
    stateless_code: -31302,
    message: "Access denied",
};
/// The caller exceeded a rate or concurrency limit.
pub const RATE_LIMITED: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "RATE_LIMITED",
    code: -32000,
    stateless_code: -31301,
    message: "Too many requests",
};
/// The caller has reached its limit on subscriptions.
pub const TOO_MANY_SUBSCRIPTIONS: RpcErrorKind =
    RpcErrorKind { message: "Too many subscriptions", ..RATE_LIMITED };
/// The server has reached its memory limit for all clients.
pub const OVERLOADED: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "OVERLOADED",
    code: -32000,
    stateless_code: -31305,
    message: "The server is overloaded",
};
/// The message must be signed, and its signature is missing or invalid (MCP-073).
pub const SIGNATURE_REFUSED: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "SIGNATURE_REFUSED",
    code: -32000,
    stateless_code: -31306,
    message: "Signature refused",
};
/// The message exceeds the length limit.
pub const PAYLOAD_TOO_LARGE: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "PAYLOAD_TOO_LARGE",
    code: -32000,
    stateless_code: -31303,
    message: "Message too large",
};
/// A tool that was called as a method of its own failed.
pub const TOOL_FAILED: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "TOOL_FAILED",
    code: -32000,
    stateless_code: -31304,
    message: "The tool failed",
};
/// The requested protocol version is not supported; the codes are MCP's.
pub const UNSUPPORTED_PROTOCOL_VERSION: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "UNSUPPORTED_PROTOCOL_VERSION",
    code: -32602,
    stateless_code: -32022,
    message: "Unsupported protocol version",
};

/// The URI names no known resource; the codes are MCP's (C-32).
pub const RESOURCE_NOT_FOUND: RpcErrorKind = RpcErrorKind {
    domain: "mcp",
    name: "RESOURCE_NOT_FOUND",
    code: -32002,
    stateless_code: -32602,
    message: "Resource not found",
};

/// The request needs a capability the client did not declare; the code is MCP's.
pub const MISSING_CLIENT_CAPABILITY: RpcErrorKind = RpcErrorKind::standard(
    "MISSING_CLIENT_CAPABILITY",
    -32021,
    "The request requires a capability the client did not declare",
);

/// The headers of a request contradict its body; the code is MCP's.
pub const HEADER_MISMATCH: RpcErrorKind =
    RpcErrorKind::standard("HEADER_MISMATCH", -32020, "Header mismatch");

/// An error response: a code, a message and data for programs.
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
    // Boxed, because it is the rare half of the results it is part of.
    parts: Box<Parts>,
}

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    kind: RpcErrorKind,
    message: Cow<'static, str>,
    data: Map<String, Value>,
}

impl RpcError {
    /// Creates an error with its default message.
    pub fn new(kind: RpcErrorKind) -> Self {
        let parts = Parts { kind, message: Cow::Borrowed(kind.message), data: Map::new() };
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

    /// Sets `data.details`, a sentence that describes the problem.
    #[must_use]
    pub fn details(self, details: impl Into<String>) -> Self {
        self.with("details", details.into())
    }

    /// Sets `data.retryAfterMs`.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        self.with(RETRY_AFTER, wait.max(1))
    }

    /// Returns the time after which a retry may succeed, if known.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.parts.data.get(RETRY_AFTER)?.as_u64().map(Duration::from_millis)
    }

    /// -32700: the text is malformed.
    pub fn parse_error(details: &str) -> Self {
        Self::new(PARSE_ERROR).details(details)
    }

    /// -32600: the text is well formed but not a valid message.
    pub fn invalid_request(details: &str) -> Self {
        Self::new(INVALID_REQUEST).details(details)
    }

    /// -32601: the method is unknown.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND).with("method", method)
    }

    /// -32602: the params are invalid.
    pub fn invalid_params(details: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS).details(details)
    }

    /// -32603, without internal details.
    pub fn internal() -> Self {
        Self::new(INTERNAL_ERROR)
            .details("The server failed to handle this request. Other requests are not affected.")
    }

    /// -32602: the tool is unknown.
    pub fn unknown_tool(tool: &str) -> Self {
        let tool = prefix(tool, MAX_NAME_LENGTH);
        Self::new(UNKNOWN_TOOL).message(format!("Unknown tool: {tool}")).with("tool", tool)
    }

    /// Reports a resource that does not exist, or that the caller may not see.
    pub fn resource_not_found(uri: &str) -> Self {
        // A URI that long is invalid and is not echoed in full.
        Self::new(RESOURCE_NOT_FOUND).with("uri", prefix(uri, 2048))
    }

    /// -32602: the prompt is unknown.
    pub fn unknown_prompt(prompt: &str) -> Self {
        let prompt = prefix(prompt, MAX_NAME_LENGTH);
        let message = format!("Unknown prompt: {prompt}");
        Self::new(UNKNOWN_PROMPT).message(message).with("prompt", prompt)
    }

    /// Reports a call that was stopped by `$/cancel`.
    pub fn cancelled(id: &RequestId, reason: Option<&str>) -> Self {
        let error =
            Self::new(CANCELLED).with("requestId", serde_json::to_value(id).unwrap_or_default());
        match reason {
            Some(reason) => error.with("reason", reason),
            None => error,
        }
    }

    /// Reports a message that exceeds the length limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(PAYLOAD_TOO_LARGE)
            .message(format!("Message too large: the limit is {limit} bytes"))
            .with("limit", limit)
    }

    /// Reports that a request is rejected because the server is out of memory for all clients.
    pub fn overloaded() -> Self {
        // Most of the memory is freed within a second if clients read their responses.
        Self::new(OVERLOADED)
            .retry_after(Duration::from_secs(1))
            .details("The server has reached its memory limit for all clients; retry in a moment.")
    }

    /// Reports an unsupported protocol version. Both lists are given in both spellings.
    pub fn unsupported_version(requested: &Value, supported: &[Revision]) -> Self {
        let supported: Vec<Value> =
            supported.iter().map(|revision| Value::from(revision.name())).collect();
        Self::new(UNSUPPORTED_PROTOCOL_VERSION)
            .with("supported", supported.clone())
            .with("requested", requested.clone())
            .with("supportedVersions", supported)
            .with("requestedVersion", requested.clone())
    }

    /// Overrides the handshake code of an error whose code depends on more than the revision.
    #[must_use]
    pub fn code_for_handshake(mut self, code: i32) -> Self {
        self.parts.kind.code = code;
        self
    }

    /// Returns the code under handshake revisions.
    pub fn code(&self) -> i32 {
        self.parts.kind.code
    }

    /// Returns the message.
    pub fn text(&self) -> &str {
        &self.parts.message
    }

    /// Returns whether `data` has this member, beside those every error has.
    pub fn has(&self, name: &str) -> bool {
        self.parts.data.contains_key(name)
    }

    /// Returns the name programs branch on.
    pub fn name(&self) -> &'static str {
        self.parts.kind.name
    }

    /// Returns the error object for a client of this revision.
    pub fn wire(&self, revision: Revision) -> WireError<'_> {
        WireError { error: self, stateless: revision.is_stateless() }
    }
}

const RETRY_AFTER: &str = "retryAfterMs";

/// Maximum length of a name echoed in an error, in characters.
const MAX_NAME_LENGTH: usize = 128;

/// An [`RpcError`] with the code of one revision, ready to be encoded.
#[derive(Debug)]
pub struct WireError<'a> {
    error: &'a RpcError,
    stateless: bool,
}

impl WireError<'_> {
    /// Returns the code that is written.
    pub fn code(&self) -> i32 {
        let kind = &self.error.parts.kind;
        if self.stateless { kind.stateless_code } else { kind.code }
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
        let Parts { kind, data, .. } = &*self.error.parts;
        // Only a forbidden seed code needs `legacyCode`. Codes in the reserved range are MCP's own.
        let is_official = (-32768..=-32000).contains(&self.code);
        let renumbered = self.code != kind.code && !is_official;
        let mut map = serializer.serialize_map(Some(2 + usize::from(renumbered) + data.len()))?;
        map.serialize_entry("domain", kind.domain)?;
        map.serialize_entry("name", kind.name)?;
        if renumbered {
            map.serialize_entry("legacyCode", &kind.code)?;
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
    use serde_json::{Value, json};

    /// C-01, MCP-063: each document's code under handshake revisions; under the stateless one a
    /// code outside the reserved range, with `legacyCode`.
    #[test]
    fn codes_follow_the_revision() {
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
    fn standard_codes_are_the_same_in_every_revision() {
        for revision in Revision::ALL {
            let error = wire(&RpcError::method_not_found("x"), revision);
            assert_eq!(error["code"], -32601);
            assert_eq!(error["data"].get("legacyCode"), None);
        }
    }

    /// C-04: both spellings in either era.
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

    /// C-32, PAT-018: the official code of each era, and the URI.
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
