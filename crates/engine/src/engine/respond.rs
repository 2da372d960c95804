//! Turns caused by a request: answering a session, and ending it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mcp_flow_session::event::{Ending, FaultName, QuestionAsked};
use mcp_flow_session::prompt::PromptType;
use mcp_flow_session::session::{QueuedQuestion, State};
use mcp_flow_session::{
    Command, CommandError, InvalidAnswer, Owner, Session, SessionId, StoreError,
};
use serde::Serialize;

use super::request::{AnswerReply, AnswerRequest, SeenTurn};
use super::{Engine, is_conflict};
use crate::digest;
use crate::error::EngineError;
use crate::execution::AnswerOutcome;
use crate::slot::Slot;
use crate::trace;
use crate::turn::TurnGuard;
use crate::view::{QuestionId, View};

impl Engine {
    /// Runs one turn with an answer. Fails with a conflict if another writer came first.
    pub(crate) async fn try_respond(
        &self,
        id: SessionId,
        owner: &Owner,
        response: &AnswerRequest,
    ) -> Result<AnswerReply, EngineError> {
        let limits = &self.inner.limits;
        self.check_open()?;
        if !response.answer.metadata.is_empty() {
            check_size("metadata", limits.metadata, &response.answer.metadata)?;
        }
        let slot = self.owned_slot(id, owner).await?;
        if let Some(rate) = limits.rate {
            let now = tokio::time::Instant::now().into_std();
            // Any node takes answers to a session.
            let nodes = self.inner.membership.as_ref().map_or(1, |membership| membership.rank().1);
            let rate = rate.share(u32::try_from(nodes).unwrap_or(u32::MAX));
            let taken = self.inner.rates.take(&id, rate, now);
            taken.map_err(|retry_after| EngineError::RateLimited { retry_after })?;
        }
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        let before = slot.execution.durable();
        let replied = self.respond_in_turn(&slot, &turn, response).await;
        // Neither a reply nor a rejection may come from outdated memory.
        if slot.execution.durable() == before && !is_conflict(&replied) {
            self.check_current(&slot).await?;
        }
        drop(turn);
        self.release_slot(&slot);
        replied
    }

    async fn respond_in_turn(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        response: &AnswerRequest,
    ) -> Result<AnswerReply, EngineError> {
        self.expire(slot, turn).await?;
        let queued = match response.question {
            Some(question) => find_queued(slot, question)?,
            None => {
                if let Some(reply) = find_repeated(slot, response)? {
                    return Ok(reply);
                }
                None
            }
        };
        check_not_timed_out(slot)?;
        if slot.prepare()? && slot.session_state() != State::Idle {
            // If the flow diverges from its journal, the question stays open.
            self.advance(slot, turn).await?;
        }
        Ok(match slot.execution.answer_question(queued, &response.answer)? {
            AnswerOutcome::Accepted => {
                slot.answered.store(true, Ordering::Release);
                trace::record_question(&slot.execution);
                self.advance(slot, turn).await?;
                AnswerReply::Accepted(slot.view())
            }
            AnswerOutcome::AcceptedAhead => {
                self.commit(slot, turn).await?;
                AnswerReply::Accepted(slot.view())
            }
            AnswerOutcome::Rejected(violation) => {
                self.commit(slot, turn).await?;
                rejected(slot, queued, violation)
            }
            AnswerOutcome::Ended => {
                self.commit_end_as(slot, turn, false).await?;
                AnswerReply::Ended(slot.view())
            }
        })
    }

    /// Ends a session. Fails with a conflict if another writer came first.
    pub(super) async fn try_end(
        &self,
        id: SessionId,
        owner: &Owner,
        command: Command,
    ) -> Result<View, EngineError> {
        self.check_open()?;
        let slot = self.owned_slot(id, owner).await?;
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        let before = slot.execution.durable();
        let ended = self.end_in_turn(&slot, &turn, command).await;
        if slot.execution.durable() == before && !is_conflict(&ended) {
            self.check_current(&slot).await?;
        }
        drop(turn);
        self.release_slot(&slot);
        ended
    }

    /// Fails if sessions may not be changed any more.
    fn check_open(&self) -> Result<(), EngineError> {
        if self.inner.draining.is_cancelled() { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }

    async fn end_in_turn(
        &self,
        slot: &Arc<Slot>,
        turn: &TurnGuard<'_>,
        command: Command,
    ) -> Result<View, EngineError> {
        self.expire(slot, turn).await?;
        let allows_early =
            slot.definition.as_ref().is_some_and(|flow| flow.allows_early_completion());
        if command == Command::Finish && !allows_early && !slot.has_ended() {
            return Err(EngineError::NotEarly);
        }
        slot.execution.command(command)?;
        self.commit_end(slot, turn).await?;
        Ok(slot.view())
    }
}

/// Finds a question that waits for an answer at this attempt. Returns its number if it is queued,
/// and none if it is the open question.
fn find_queued(slot: &Slot, id: QuestionId) -> Result<Option<u32>, EngineError> {
    let state = slot.execution.lock();
    let session = &state.session;
    if session.is_open(id.number) && session.attempts() == id.attempt {
        return Ok(None);
    }
    match session.unanswered(id.number) {
        Some(queued) if queued.attempts() == id.attempt => Ok(Some(id.number)),
        _ => Err(EngineError::QuestionClosed(id)),
    }
}

/// Recognises an answer that was given before: to an earlier turn, as an attempt at the open
/// question, or as the last one of a session that has ended (C-11).
fn find_repeated(
    slot: &Slot,
    response: &AnswerRequest,
) -> Result<Option<AnswerReply>, EngineError> {
    let state = slot.execution.lock();
    let session = &state.session;
    let value = &response.answer.value;
    let is_repeated = match (&session.ended, response.turn) {
        (Some(ended), turn) => {
            let is_last = turn.is_none_or(|turn| turn.checked_add(1) == Some(ended.turns));
            let is_same = ended.last_by_default && mcp_flow_session::is_empty(value)
                || ended.last_answer.as_ref() == Some(&digest::of_answer(slot.id, value));
            // Sent twice before the first was answered, it is one answer too many, not a retry.
            let is_retry = turn.is_some()
                || response.seen.is_none_or(|seen| {
                    !seen.is_reliable || seen.turn.is_none_or(|turn| turn >= ended.turns)
                });
            // Only a result is repeated. A session that failed, was cancelled or was finished early
            // did not end by its last answer.
            let by_answer =
                matches!(ended.ending, Ending::Completed { .. }) && !ended.finished_early;
            is_last && is_same && is_retry && by_answer
        }
        (None, None) => {
            check_seen(slot, session, response.seen)?;
            false
        }
        (None, Some(turn)) => {
            if turn == session.turn() {
                // Turns can be guessed, and nobody confirms what they have not read.
                if session.open.as_ref().is_some_and(is_confirmation) {
                    check_seen(slot, session, response.seen)?;
                }
                // Attempts since the client was last sent the question.
                let attempt = response.attempt.and_then(|attempt| usize::try_from(attempt).ok());
                let since = attempt.and_then(|attempt| session.wrong.get(attempt..));
                let again = since.is_some_and(|wrong| {
                    !wrong.is_empty() && wrong.contains(&Some(digest::of_answer(slot.id, value)))
                });
                let violation = session.violation.clone().filter(|_| again);
                drop(state);
                return Ok(violation.map(|violation| rejected(slot, None, violation)));
            }
            let answered = session.history.iter().find(|answered| answered.turn == turn);
            let is_same = answered.is_some_and(|turn| {
                let given = turn.asked.prompt.check(value);
                given.is_ok_and(|given| given == turn.answered.value)
            });
            if !is_same {
                let (from, to) = (session.state, State::Processing);
                return Err(CommandError::Transition { from, to }.into());
            }
            true
        }
    };
    drop(state);
    Ok(is_repeated.then(|| AnswerReply::Repeated(slot.view())))
}

/// Rejects an answer whose sender cannot know the open question (INT-041).
fn check_seen(slot: &Slot, session: &Session, seen: Option<SeenTurn>) -> Result<(), EngineError> {
    let Some((open, seen)) = session.open.as_ref().zip(seen) else { return Ok(()) };
    let is_unseen = seen.turn.map_or(is_confirmation(open), |turn| turn < session.turn());
    // If another process took the answer before, it may have sent the next question, too.
    if is_unseen && slot.answered.load(Ordering::Acquire) {
        return Err(EngineError::Transition { from: session.state, to: State::Processing });
    }
    Ok(())
}

fn is_confirmation(asked: &QuestionAsked) -> bool {
    asked.prompt.kind == PromptType::Confirm
}

/// Rejects an answer to a session that ended because an operation timed out (C-41).
fn check_not_timed_out(slot: &Slot) -> Result<(), EngineError> {
    match slot.execution.lock().session.ending() {
        Some(Ending::Failed(fault)) if fault.name == FaultName::Timeout => {
            Err(EngineError::TimedOut(fault.clone()))
        }
        _ => Ok(()),
    }
}

/// Reply to an invalid answer to a queued question, or else to the open one.
fn rejected(slot: &Slot, queued: Option<u32>, violation: InvalidAnswer) -> AnswerReply {
    let state = slot.execution.lock();
    let queued = queued.and_then(|number| state.session.unanswered(number));
    let attempts = queued.map_or_else(|| state.session.attempts(), QueuedQuestion::attempts);
    drop(state);
    let left = slot.execution.limits.bounds.attempts.saturating_sub(attempts);
    AnswerReply::Rejected { violation, left, view: slot.view() }
}

pub(super) fn check_size(
    what: &'static str,
    most: usize,
    value: &impl Serialize,
) -> Result<(), EngineError> {
    let size = serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len());
    if size > most { Err(EngineError::TooLarge { what, most }) } else { Ok(()) }
}
