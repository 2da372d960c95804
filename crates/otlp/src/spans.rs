//! Spans in Protocol Buffers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_flow_proto::model::TraceParent;
use mcp_flow_proto::text::prefix_bytes;
use mcp_flow_telemetry::{AttributeValue, FinishedSpan, SpanKind};

use crate::protobuf::Encode;

/// Encodes a span.
pub(crate) fn encode(record: &mut Vec<u8>, span: &FinishedSpan) {
    let head = SpanHead {
        id: &span.id,
        state: span.state.as_deref(),
        parent: span.parent,
        kind: span.kind,
        start: span.start,
        time: span.time,
    };
    head.encode(record, &[&span.name]);
    for (name, value) in &span.attributes {
        match value {
            AttributeValue::Text(text) => record.attribute(ATTRIBUTES, name, truncate(text)),
            AttributeValue::Integer(number) => record.integer_attribute(ATTRIBUTES, name, *number),
            AttributeValue::Boolean(value) => record.boolean_attribute(ATTRIBUTES, name, *value),
            _ => {}
        }
    }
    for link in &span.links {
        record.message(13, |encoded| {
            encoded.bytes(1, &link.trace_id().to_be_bytes());
            encoded.bytes(2, &link.span_id().to_be_bytes());
            encoded.fixed32(6, u32::from(link.is_sampled()));
        });
    }
    if let Some(problem) = &span.error {
        encode_error(record, problem);
    }
}

/// The members that every span has.
pub(crate) struct SpanHead<'a> {
    pub(crate) id: &'a TraceParent,
    pub(crate) state: Option<&'a str>,
    pub(crate) parent: Option<u64>,
    pub(crate) kind: SpanKind,
    pub(crate) start: SystemTime,
    pub(crate) time: Duration,
}

impl SpanHead<'_> {
    /// Encodes the head; the parts of the name are joined by spaces.
    pub(crate) fn encode(&self, record: &mut Vec<u8>, name: &[&str]) {
        record.bytes(1, &self.id.trace_id().to_be_bytes());
        record.bytes(2, &self.id.span_id().to_be_bytes());
        if let Some(state) = self.state {
            record.text(3, state);
        }
        if let Some(parent) = self.parent {
            record.bytes(4, &parent.to_be_bytes());
        }
        record.message(5, |text| {
            for (index, part) in name.iter().enumerate() {
                if index > 0 {
                    text.push(b' ');
                }
                text.extend_from_slice(truncate(part).as_bytes());
            }
        });
        let kind = match self.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        };
        record.number(6, kind);
        let start = nanos(self.start);
        record.fixed64(7, start);
        record.fixed64(8, start.saturating_add(as_nanos(self.time)));
        record.fixed32(16, u32::from(self.id.is_sampled()));
    }
}

/// Encodes the status of a failed span.
pub(crate) fn encode_error(record: &mut Vec<u8>, problem: &str) {
    record.message(15, |status| {
        status.text(2, truncate(problem));
        status.number(3, 2);
    });
}

/// Nanoseconds since 1970.
pub(crate) fn nanos(time: SystemTime) -> u64 {
    as_nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Cuts off what is too long for an attribute.
pub(crate) fn truncate(text: &str) -> &str {
    prefix_bytes(text, MAX_TEXT)
}

/// Field of the attributes of a span.
pub(crate) const ATTRIBUTES: u32 = 9;

/// Longest text of an attribute, in bytes.
const MAX_TEXT: usize = 1024;
