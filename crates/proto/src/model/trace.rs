//! W3C Trace Context and Baggage, in `_meta` or in headers.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::Meta;
use crate::raw::Raw;

/// The trace context of a request. At least one of `parent` and `baggage` is there.
///
/// Malformed members are ignored, as W3C requires: a request is never rejected because of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub parent: Option<TraceParent>,
    /// `tracestate`, opaque to MCP Flow; only with `traceparent`.
    pub state: Option<Box<str>>,
    /// `baggage`, opaque to MCP Flow: properties that callers propagate to what they call.
    pub baggage: Option<Box<str>>,
}

/// A parsed `traceparent`: trace id, parent id and flags.
///
/// ```
/// use mcp_flow_proto::model::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = text.parse().unwrap();
/// assert_eq!(parent.trace(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(parent.to_string(), text);
/// assert!("00-0-0-0".parse::<TraceParent>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

/// A text that is not a valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("traceparent is 00-TRACE-PARENT-FLAGS with 32, 16 and 2 hexadecimal digits")]
pub struct BadTraceParent;

impl TraceContext {
    /// Reads the three members of `_meta`.
    pub(crate) fn from_raw(
        parent: Option<Raw<'_>>,
        state: Option<Raw<'_>>,
        baggage: Option<Raw<'_>>,
    ) -> Option<Self> {
        let [parent, state, baggage] =
            [parent, state, baggage].map(|raw| raw.and_then(Raw::as_text));
        Self::from_texts(parent.as_deref(), state.as_deref(), baggage.as_deref())
    }

    /// Reads the values of three members of `_meta`, or of headers.
    pub fn from_texts(
        parent: Option<&str>,
        state: Option<&str>,
        baggage: Option<&str>,
    ) -> Option<Self> {
        let parent = parent.and_then(|text| text.parse().ok());
        let state =
            state.filter(|_| parent.is_some()).and_then(|text| opaque(text, MAX_STATE_LENGTH));
        let baggage = baggage.and_then(|text| opaque(text, MAX_BAGGAGE_LENGTH));
        (parent.is_some() || baggage.is_some()).then_some(Self { parent, state, baggage })
    }

    /// Adds the context to the `_meta` of a downstream request.
    pub fn add_to(&self, meta: &mut Meta) {
        let parent = self.parent.map(|parent| parent.to_string());
        let opaque = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        for (name, text) in [
            ("traceparent", parent),
            ("tracestate", opaque(&self.state)),
            ("baggage", opaque(&self.baggage)),
        ] {
            if let Some(text) = text {
                meta.insert(name.to_owned(), Value::String(text));
            }
        }
    }
}

/// Reads a text that is only passed on, if it is printable and not too long.
fn opaque(text: &str, longest: usize) -> Option<Box<str>> {
    let is_good = !text.is_empty() && text.len() <= longest && text.bytes().all(is_printable);
    is_good.then(|| text.into())
}

impl TraceParent {
    /// Names a span of a trace, and whether it is recorded. `None` if an id is zero, which W3C
    /// forbids.
    pub fn new(trace: u128, span: u64, is_sampled: bool) -> Option<Self> {
        (trace != 0 && span != 0).then_some(Self { trace, span, flags: u8::from(is_sampled) })
    }

    /// Returns the trace id as 32 hexadecimal digits.
    pub fn trace(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Returns the trace id.
    pub fn trace_id(&self) -> u128 {
        self.trace
    }

    /// Returns the id of the span.
    pub fn span_id(&self) -> u64 {
        self.span
    }

    /// Returns whether the sender records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl FromStr for TraceParent {
    type Err = BadTraceParent;

    fn from_str(text: &str) -> Result<Self, BadTraceParent> {
        let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        if text.len() > MAX_PARENT_LENGTH || !text.bytes().all(is_plain) {
            return Err(BadTraceParent);
        }
        let mut parts = text.split('-');
        let mut digits = |length| parts.next().filter(|part| part.len() == length);
        let all = (digits(2), digits(32), digits(16), digits(2));
        let (Some(version), Some(trace), Some(span), Some(flags)) = all else {
            return Err(BadTraceParent);
        };
        // Later versions may have more parts, which are ignored; version ff is invalid.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(BadTraceParent);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| BadTraceParent)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| BadTraceParent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| BadTraceParent)?;
        if trace == 0 || span == 0 {
            return Err(BadTraceParent);
        }
        Ok(Self { trace, span, flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

fn is_printable(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte)
}

/// Maximum length of `traceparent`, with room for later versions.
const MAX_PARENT_LENGTH: usize = 256;

/// Maximum length of `tracestate` that W3C requires implementations to propagate.
const MAX_STATE_LENGTH: usize = 512;

/// Maximum length of `baggage` that W3C requires implementations to propagate.
const MAX_BAGGAGE_LENGTH: usize = 8192;

#[cfg(test)]
mod tests {
    use super::{TraceContext, TraceParent};
    use crate::model::Meta;
    use crate::raw::Raw;

    /// MCP-077: baggage is propagated with a trace and without one.
    #[test]
    fn baggage_is_passed_on_as_it_is() {
        let parent = "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"";
        let long = format!("\"k={}\"", "v".repeat(9000));
        for (parent, state, baggage, expected) in [
            (Some(parent), Some("\"a=1\""), Some("\"k=v;p,x=%20\""), 3),
            (Some(parent), None, None, 1),
            (None, Some("\"a=1\""), Some("\"k=v\""), 1),
            (None, Some("\"a=1\""), None, 0),
            (None, None, Some("7"), 0),
            (None, None, Some("\"\""), 0),
            (None, None, Some("\"k=\\u001b[31m\""), 0),
            (None, None, Some(long.as_str()), 0),
        ] {
            let read = TraceContext::from_raw(
                parent.map(Raw::Json),
                state.map(Raw::Json),
                baggage.map(Raw::Json),
            );
            let mut meta = Meta::new();
            if let Some(read) = read {
                read.add_to(&mut meta);
            }
            assert_eq!(meta.len(), expected, "{meta:?}");
            if let Some(passed) = meta.get("baggage") {
                assert_eq!(Some(passed.to_string().as_str()), baggage);
            }
        }
    }

    /// MCP-077: only the W3C spelling is accepted; anything else is ignored.
    #[test]
    fn traces_are_read_as_w3c_writes_them() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        for good in
            [format!("00-{trace}-00f067aa0ba902b7-01"), format!("00-{trace}-00f067aa0ba902b7-00")]
        {
            assert_eq!(good.parse::<TraceParent>().unwrap().to_string(), good);
        }
        let later = format!("cc-{trace}-00f067aa0ba902b7-01-what-is-this-0");
        assert!(later.parse::<TraceParent>().is_err(), "letters that are no digits");
        let later = format!("cc-{trace}-00f067aa0ba902b7-01-beef");
        assert_eq!(later.parse::<TraceParent>().unwrap().trace(), trace);
        for bad in [
            String::new(),
            trace.to_owned(),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{trace}-00f067aa0ba902b7-01-00"),
            format!("00-{trace}-00f067aa0ba902b7"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{trace}-00f067aa0ba902b7-+1"),
        ] {
            assert!(bad.parse::<TraceParent>().is_err(), "{bad}");
        }
    }
}
