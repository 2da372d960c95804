//! End of a round: the handler's outcome, or a request for input in its place.

use std::task::Waker;

use mcp_flow_proto::model::{InputRequiredResult, Meta};
use parking_lot::MutexGuard;

use super::fingerprint::Fingerprint;
use super::round::Round;
use crate::context::Context;
use crate::handler::Outcome;
use crate::revision::add_server_info;

/// Replaces a handler's outcome where needed.
///
/// A handler that fails after asking for an undeclared capability failed because of that. A handler
/// that cannot wait has its outcome discarded while it needs input.
pub(super) fn finish_round(
    context: &Context,
    outcome: Outcome,
    request: impl FnOnce() -> Fingerprint,
) -> Outcome {
    let Some(round) = context.rounds().begun() else { return outcome };
    if (round.is_over || round.never_waits) && round.needs_input() {
        return require(context, round, request());
    }
    match round.missing_capability() {
        Some(error) if outcome.is_err() => Err(error),
        _ => outcome,
    }
}

/// The request for input to reply with, if the waiting handler needs input. Otherwise the task is
/// woken once it does.
pub(super) fn input_request(
    context: &Context,
    waker: Option<&Waker>,
    request: impl FnOnce() -> Fingerprint,
) -> Option<Outcome> {
    let mut round = match waker {
        Some(_) => context.rounds().current()?,
        None => context.rounds().begun()?,
    };
    if round.needs_input() {
        return Some(require(context, round, request()));
    }
    round.waker = waker.cloned();
    None
}

fn require(context: &Context, mut round: MutexGuard<'_, Round>, request: Fingerprint) -> Outcome {
    let (needed, state) = round.end(request);
    drop(round);
    let state = state.seal(context)?;
    let mut meta = Meta::new();
    add_server_info(&mut meta, context.server().info_value().clone());
    context.reply(&InputRequiredResult {
        result_type: "input_required",
        input_requests: &needed,
        request_state: Some(&state),
        meta,
    })
}
