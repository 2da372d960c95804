//! W3C Trace Context in `_meta`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::Meta;
use crate::raw::Raw;

/// The trace context of a request.
///
/// Malformed members are ignored, as W3C requires: a request is never rejected because of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// `traceparent`.
    pub parent: TraceParent,
    /// `tracestate`, opaque to MCP Flow.
    pub state: Option<Box<str>>,
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
    step: u64,
    flags: u8,
}

/// A text that is not a valid `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("traceparent is 00-TRACE-PARENT-FLAGS with 32, 16 and 2 hexadecimal digits")]
pub struct BadTraceParent;

impl TraceContext {
    /// Reads both members of `_meta`.
    pub(crate) fn from_raw(parent: Option<Raw<'_>>, state: Option<Raw<'_>>) -> Option<Self> {
        let parent = parent?.as_text()?.parse().ok()?;
        let is_good = |text: &str| text.len() <= LONGEST_STATE && text.bytes().all(is_printable);
        let state = state.and_then(Raw::as_text).filter(|text| is_good(text));
        Some(Self { parent, state: state.map(|text| text.as_ref().into()) })
    }

    /// Adds the context to the `_meta` of a downstream request.
    pub fn add_to(&self, meta: &mut Meta) {
        meta.insert("traceparent".to_owned(), Value::String(self.parent.to_string()));
        if let Some(state) = &self.state {
            meta.insert("tracestate".to_owned(), Value::String(state.as_ref().into()));
        }
    }
}

impl TraceParent {
    /// Returns the trace id as 32 hexadecimal digits.
    pub fn trace(&self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl FromStr for TraceParent {
    type Err = BadTraceParent;

    fn from_str(text: &str) -> Result<Self, BadTraceParent> {
        let is_plain = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        if text.len() > LONGEST_PARENT || !text.bytes().all(is_plain) {
            return Err(BadTraceParent);
        }
        let mut parts = text.split('-');
        let mut digits = |length| parts.next().filter(|part| part.len() == length);
        let all = (digits(2), digits(32), digits(16), digits(2));
        let (Some(version), Some(trace), Some(step), Some(flags)) = all else {
            return Err(BadTraceParent);
        };
        // Later versions may have more parts, which are ignored; version ff is invalid.
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(BadTraceParent);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| BadTraceParent)?;
        let step = u64::from_str_radix(step, 16).map_err(|_| BadTraceParent)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| BadTraceParent)?;
        if trace == 0 || step == 0 {
            return Err(BadTraceParent);
        }
        Ok(Self { trace, step, flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "00-{:032x}-{:016x}-{:02x}", self.trace, self.step, self.flags)
    }
}

fn is_printable(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte)
}

/// Maximum length of `traceparent`, with room for later versions.
const LONGEST_PARENT: usize = 256;

/// Maximum length of `tracestate` that W3C requires implementations to propagate.
const LONGEST_STATE: usize = 512;

#[cfg(test)]
mod tests {
    use super::TraceParent;

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
