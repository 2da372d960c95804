//! One span, from its start to its end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mcp_flow_proto::model::{TraceContext, TraceParent};

use crate::{context, identifier, sink};

/// A span that is running. Dropping it ends it.
///
/// A span that nobody records is empty: setting attributes on it does nothing.
#[derive(Debug)]
pub struct Span(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    span: FinishedSpan,
    /// Context of what runs within the span; none if it is only measured.
    context: Option<Arc<TraceContext>>,
    begun: Instant,
    /// Time between the start and `begun`.
    before: Duration,
}

/// A finished span.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FinishedSpan {
    /// Name, with few different values.
    pub name: Cow<'static, str>,
    /// Kind of work.
    pub kind: SpanKind,
    /// Ids of the trace and of this span. One that is not sampled is measured, and no part of a trace.
    pub id: TraceParent,
    /// Span that this one is a part of.
    pub parent: Option<u64>,
    /// `tracestate` of the trace.
    pub state: Option<Box<str>>,
    /// Time of its start.
    pub start: SystemTime,
    /// Time from start to end.
    pub time: Duration,
    /// Attributes, in the order they were set.
    pub attributes: Vec<Attribute>,
    /// Spans of other traces, or earlier ones of the same, that caused this one.
    pub links: Vec<TraceParent>,
    /// Description of the failure, if it failed.
    pub error: Option<String>,
}

/// Name and value of an attribute.
pub type Attribute = (&'static str, AttributeValue);

/// Value of an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// An integer.
    Integer(i64),
    /// True or false.
    Boolean(bool),
}

/// Kind of work that a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the process.
    Internal,
    /// A request that is served.
    Server,
    /// A request to another process.
    Client,
}

impl Span {
    /// Starts a part of what runs now, as [`child_of`](Self::child_of) does.
    pub fn start(kind: SpanKind, name: impl FnOnce() -> Cow<'static, str>) -> Self {
        if !sink::is_enabled() {
            return Self(None);
        }
        Self::child_of(context::current().as_ref(), kind, name)
    }

    /// Starts a part of what has this context. Empty if that is not traced and spans of this kind are not
    /// measured either.
    pub fn child_of(
        outer: Option<&Arc<TraceContext>>,
        kind: SpanKind,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> Self {
        let Some(sink) = sink::installed() else { return Self(None) };
        let sampled = outer.and_then(|outer| Some((outer, outer.parent?)));
        let sampled = sampled.filter(|(_, parent)| parent.is_sampled());
        let trace = sampled.map_or_else(identifier::trace_id, |(_, parent)| parent.trace_id());
        let id = TraceParent::new(trace, identifier::span_id(), sampled.is_some());
        match (id, sampled) {
            (Some(id), Some((outer, parent))) => {
                Self::begin(name(), kind, id, Some(parent.span_id()), Some(outer))
            }
            (Some(id), None) if sink.measures(kind) => Self::begin(name(), kind, id, None, None),
            _ => Self(None),
        }
    }

    /// Starts a trace of its own, for work that no call causes.
    pub fn root(kind: SpanKind, name: impl FnOnce() -> Cow<'static, str>) -> Self {
        let Some(sink) = sink::installed() else { return Self(None) };
        let trace = identifier::trace_id();
        match TraceParent::new(trace, identifier::span_id(), true) {
            Some(id) if sink.samples(None, trace) => Self::begin(name(), kind, id, None, None),
            _ => Self(None),
        }
    }

    fn begin(
        name: Cow<'static, str>,
        kind: SpanKind,
        id: TraceParent,
        parent: Option<u64>,
        outer: Option<&Arc<TraceContext>>,
    ) -> Self {
        let state = outer.and_then(|outer| outer.state.clone());
        let baggage = outer.and_then(|outer| outer.baggage.clone());
        let context = TraceContext { parent: Some(id), state: state.clone(), baggage };
        let span = FinishedSpan {
            name,
            kind,
            id,
            parent,
            state,
            start: SystemTime::now(),
            time: Duration::ZERO,
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        };
        let context = id.is_sampled().then(|| Arc::new(context));
        let begun = Instant::now();
        Self(Some(Box::new(Running { span, context, begun, before: Duration::ZERO })))
    }

    /// Returns the context of what runs within the span; `None` if it is not part of a trace.
    pub fn context(&self) -> Option<Arc<TraceContext>> {
        self.0.as_ref().and_then(|running| running.context.clone())
    }

    /// Returns whether the span is recorded.
    pub fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// Sets an attribute; the value is made only if the span is recorded.
    pub fn set<V: Into<AttributeValue>>(
        &mut self,
        name: &'static str,
        value: impl FnOnce() -> V,
    ) -> &mut Self {
        if let Some(running) = &mut self.0 {
            running.span.attributes.push((name, value().into()));
        }
        self
    }

    /// Links a span that caused this one, unless that is the parent.
    pub fn link(&mut self, cause: Option<TraceParent>) -> &mut Self {
        if let (Some(running), Some(cause)) = (&mut self.0, cause)
            && running.span.parent != Some(cause.span_id())
        {
            running.span.links.push(cause);
        }
        self
    }

    /// Marks the span as failed: `kind` is one of few values, `message` is for people.
    pub fn fail(&mut self, kind: impl Into<Cow<'static, str>>, message: impl FnOnce() -> String) {
        if let Some(running) = &mut self.0 {
            running.span.attributes.push(("error.type", AttributeValue::Text(kind.into())));
            running.span.error = Some(message());
        }
    }

    /// Moves the start to an earlier time.
    pub fn started_at(&mut self, start: SystemTime) {
        if let Some(running) = &mut self.0 {
            running.before = running.span.start.duration_since(start).unwrap_or_default();
            running.span.start = start;
        }
    }

    /// Runs a future within the span.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        context::scope(self.context(), future).await
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(mut running) = self.0.take() else { return };
        running.span.time = running.before + running.begun.elapsed();
        if let Some(sink) = sink::installed() {
            sink.record(&running.span);
        }
    }
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<Cow<'static, str>> for AttributeValue {
    fn from(text: Cow<'static, str>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}
