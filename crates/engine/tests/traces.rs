//! Spans of sessions.

use std::sync::Arc;

use mcp_flow_proto::model::{TraceContext, TraceParent};
use mcp_flow_session::MemoryStore;
use mcp_flow_telemetry::{FinishedSpan, SpanSink, install, scope};
use parking_lot::Mutex;
use serde_json::json;

use crate::support::{answer, builder, start};

/// Spans of all tests of this binary.
#[derive(Default)]
struct Spans(Mutex<Vec<FinishedSpan>>);

impl SpanSink for Spans {
    fn samples(&self, parent: Option<&TraceParent>, _: u128) -> bool {
        parent.is_some()
    }

    fn record(&self, span: &FinishedSpan) {
        self.0.lock().push(span.clone());
    }
}

/// A call in a trace, whose span has the same number.
fn call(number: u64) -> Option<Arc<TraceContext>> {
    let parent = TraceParent::new(number.into(), number, true);
    Some(Arc::new(TraceContext { parent, ..TraceContext::default() }))
}

/// A turn in another process is linked to the span that started the session.
#[tokio::test]
async fn later_turns_are_linked_to_the_start_of_their_session() {
    let spans = Arc::new(Spans::default());
    assert!(install(spans.clone()), "the only sink of these tests");
    let store = Arc::new(MemoryStore::new());
    let first = builder(store.clone()).build();
    let id = scope(call(7), first.start(start("register"))).await.unwrap().id;
    drop(first);
    let second = builder(store).build();
    scope(call(8), answer(&second, id, json!("Ada"))).await;
    let spans = spans.0.lock();
    let appends = |trace: u128| {
        let of_trace = spans.iter().filter(move |span| span.id.trace_id() == trace);
        of_trace.filter(|span| span.name == "store append")
    };
    assert!(appends(7).count() > 0 && appends(8).count() > 0, "{spans:#?}");
    assert!(appends(7).all(|span| span.links.is_empty()), "the start is the parent: {spans:#?}");
    let start = TraceParent::new(7, 7, true).unwrap();
    assert!(appends(8).all(|span| span.links == [start]), "{spans:#?}");
}
