//! A sink that measures spans which are no part of a trace. It is that of the whole process.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use mcp_flow_proto::model::{TraceContext, TraceParent};
use mcp_flow_telemetry::{FinishedSpan, Span, SpanKind, SpanSink, install};

/// Samples no trace, and measures requests to other processes.
struct Measuring(Sender<(String, bool)>);

impl SpanSink for Measuring {
    fn samples(&self, _: Option<&TraceParent>, _: u128) -> bool {
        false
    }

    fn measures(&self, kind: SpanKind) -> bool {
        kind == SpanKind::Client
    }

    fn record(&self, span: &FinishedSpan) {
        self.0.send((span.name.to_string(), span.id.is_sampled())).unwrap();
    }
}

/// Requests are measured whether their traces are sampled or not.
#[test]
fn spans_that_are_not_sampled_are_measured() {
    let (sender, recorded) = channel();
    assert!(install(Arc::new(Measuring(sender))));
    let within = |is_sampled| {
        let parent = TraceParent::new(7, 8, is_sampled);
        Arc::new(TraceContext { parent, ..TraceContext::default() })
    };
    for (outer, kind, name, is_traced) in [
        (Some(within(true)), SpanKind::Client, "sampled", true),
        (Some(within(false)), SpanKind::Client, "not sampled", false),
        (None, SpanKind::Client, "without a trace", false),
        (Some(within(false)), SpanKind::Internal, "not measured", false),
    ] {
        let span = Span::child_of(outer.as_ref(), kind, || name.into());
        assert_eq!(span.context().is_some(), is_traced, "{name}");
    }
    let expected = [("sampled", true), ("not sampled", false), ("without a trace", false)];
    let expected = expected.map(|(name, is_sampled)| (name.to_owned(), is_sampled));
    assert_eq!(recorded.try_iter().collect::<Vec<_>>(), expected);
}
