//! Spans of sessions: steps, questions, appends, and flows that are resumed.
//!
//! A session outlives the calls it is used by, and the process. Its journal has the span that started
//! it, to which later spans are linked, so that a trace leads from one to the others.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use mcp_flow_proto::model::{TraceContext, TraceParent};
use mcp_flow_session::{Session, SessionId};
use mcp_flow_telemetry::{Span, SpanKind, current};

use crate::execution::Execution;

/// Returns the span that starts a session now, for its journal.
pub(crate) fn of_start() -> Option<String> {
    Some(current()?.parent?.to_string())
}

/// Starts the span of a step.
pub(crate) fn start_step(execution: &Execution, key: &str) -> Span {
    let mut span = Span::start(SpanKind::Internal, || format!("step {key}").into());
    if span.is_recorded() {
        describe(&mut span, execution.id, &execution.lock().session);
    }
    span
}

/// Starts the span of an append to the store. Every turn has one, so that a later turn is linked to the
/// start of its session by it.
pub(crate) fn start_append(execution: &Execution, events: usize) -> Span {
    let mut span = Span::start(SpanKind::Internal, || Cow::Borrowed("store append"));
    if span.is_recorded() {
        describe(&mut span, execution.id, &execution.lock().session);
        span.set("mcp_flow.events", || events);
    }
    span
}

/// Starts the span of a flow that continues without a call, as after a crash.
pub(crate) fn start_resume(execution: &Execution) -> Span {
    let name = || format!("resume {}", execution.lock().session.started.flow).into();
    let mut span = match current() {
        Some(_) => Span::start(SpanKind::Internal, name),
        None => Span::root(SpanKind::Internal, name),
    };
    if span.is_recorded() {
        describe(&mut span, execution.id, &execution.lock().session);
    }
    span
}

/// Records the span of a question that was just answered: from when it was asked, as a part of the
/// call that started the session, linked to the call that answers.
pub(crate) fn record_question(execution: &Execution) {
    if !mcp_flow_telemetry::is_enabled() {
        return;
    }
    let state = execution.lock();
    let session = &state.session;
    let Some(turn) = session.history.last() else { return };
    let answering = current();
    let started = start_of(session)
        .map(|parent| Arc::new(TraceContext { parent: Some(parent), ..TraceContext::default() }));
    let parent = started.as_ref().or(answering.as_ref());
    let name = || format!("question {}", turn.asked.key).into();
    let mut span = Span::child_of(parent, SpanKind::Internal, name);
    span.started_at(UNIX_EPOCH + Duration::from_millis(turn.asked.at.as_millis()));
    span.set(SESSION, || execution.id.to_string());
    span.set(FLOW, || session.started.flow.clone());
    span.link(answering.and_then(|answering| answering.parent));
}

fn describe(span: &mut Span, id: SessionId, session: &Session) {
    span.set(SESSION, || id.to_string());
    span.set(FLOW, || session.started.flow.clone());
    span.link(start_of(session));
}

/// Returns the span that started a session, if it was traced.
fn start_of(session: &Session) -> Option<TraceParent> {
    session.started.trace.as_deref()?.parse().ok()
}

const SESSION: &str = "mcp_flow.session.id";
const FLOW: &str = "mcp_flow.flow";
