//! The sink that records finished spans.

use std::sync::{Arc, OnceLock};

use mcp_flow_proto::model::TraceParent;

use crate::span::{FinishedSpan, SpanKind};

/// Records spans. All methods run on the path of calls and must not block.
pub trait SpanSink: Send + Sync + 'static {
    /// Decides whether a new span is recorded: by its parent, if it has one, or by its trace id.
    fn samples(&self, parent: Option<&TraceParent>, trace: u128) -> bool;

    /// Returns whether spans of a kind are recorded even if they are not sampled, to be measured.
    fn measures(&self, _kind: SpanKind) -> bool {
        false
    }

    /// Records a finished span. If it is not sampled, it is only measured.
    fn record(&self, span: &FinishedSpan);
}

/// Installs the sink of this process. Returns false if there is one already.
pub fn install(sink: Arc<dyn SpanSink>) -> bool {
    SINK.set(sink).is_ok()
}

/// Returns whether spans are recorded in this process.
pub fn is_enabled() -> bool {
    SINK.get().is_some()
}

pub(crate) fn installed() -> Option<&'static Arc<dyn SpanSink>> {
    SINK.get()
}

static SINK: OnceLock<Arc<dyn SpanSink>> = OnceLock::new();
