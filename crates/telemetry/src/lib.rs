//! Spans: units of work in a trace.
//!
//! A call that is traced has a current [`TraceContext`](mcp_flow_proto::model::TraceContext), which
//! [`enter`] and [`scope`] keep while its code runs. A [`Span`] is a child of it. Finished spans go to
//! the [`SpanSink`] that a program installs; without one, a span costs one atomic load. This crate
//! knows neither servers nor how spans are exported.

mod context;
mod identifier;
mod sink;
mod span;

pub use context::{Entered, begin_call, current, enter, inherit, scope};
pub use sink::{SpanSink, install, is_enabled};
pub use span::{Attribute, AttributeValue, FinishedSpan, Span, SpanKind};
