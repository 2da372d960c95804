//! Questions of a flow: asked, replayed, answered and withdrawn.

use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_flow_session::event::{FaultName, JournalEvent};
use mcp_flow_session::prompt::Prompt;
use mcp_flow_session::replay::{RecordedQuestion, question_of};
use mcp_flow_session::session::Answer;
use mcp_flow_session::{Command, CommandError};
use serde_json::Value;

use super::{AnswerOutcome, Execution, Operation};
use crate::digest;

impl Execution {
    /// Answers a queued question, or else the open one, if the answer is valid.
    pub(crate) fn answer_question(
        &self,
        queued: Option<u32>,
        answer: &Answer,
    ) -> Result<AnswerOutcome, CommandError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let answer_value = &answer.value;
        let answer = answer.clone();
        let command = match queued {
            Some(question) => Command::AnswerAhead { question, answer },
            None => Command::Answer(answer),
        };
        let mut event = state.session.decide(command, now, &self.limits.bounds)?;
        let outcome = match &mut event {
            JournalEvent::Answered(_) => AnswerOutcome::Accepted,
            JournalEvent::AnsweredAhead { .. } => AnswerOutcome::AcceptedAhead,
            JournalEvent::Rejected { violation, answer: noted, .. } => {
                *noted = Some(digest::of_answer(self.id, answer_value));
                AnswerOutcome::Rejected(violation.clone())
            }
            _ => AnswerOutcome::Ended,
        };
        state.push(event);
        Ok(outcome)
    }

    /// Polls a question of the flow for its answer. It gets its number when it is asked. `link` is the
    /// number of the link that can answer it.
    pub(crate) fn poll_ask(
        &self,
        key: &str,
        link: Option<u32>,
        number: &mut Option<u32>,
        prompt: &Prompt,
        context: &mut Context<'_>,
    ) -> Poll<Value> {
        let now = self.clock.now();
        let mut state = self.lock();
        let state = &mut *state;
        if state.session.ended.is_some() {
            return Poll::Pending;
        }
        if number.is_none() {
            match state.replay.question(key, prompt) {
                RecordedQuestion::Given(value) => {
                    state.replayed();
                    return Poll::Ready(value);
                }
                RecordedQuestion::Asked(recorded) => {
                    *number = Some(recorded);
                    state.asked_now.push((Operation::Question, recorded));
                    state.replayed();
                }
                RecordedQuestion::NotYet => {
                    state.wait_for_turn(Operation::Question, question_of(key, prompt));
                }
                RecordedQuestion::Differs => state.diverge(Some(&question_of(key, prompt))),
                // Too many questions are open: it is asked when one of them is answered.
                RecordedQuestion::New if !state.session.can_ask() => {}
                RecordedQuestion::New => {
                    let command = Command::Ask {
                        key: key.to_owned(),
                        prompt: Arc::new(prompt.clone()),
                        progress: state.progress.clone(),
                        link,
                    };
                    match state.session.decide(command, now, &self.limits.bounds) {
                        Ok(JournalEvent::Given { key, value, at }) => {
                            state.push(JournalEvent::Given { key, value: value.clone(), at });
                            return Poll::Ready(value);
                        }
                        Ok(event) => {
                            *number = Some(state.session.prompts);
                            state.asked_now.push((Operation::Question, state.session.prompts));
                            state.push(event);
                        }
                        // The flow asks before it began or after its end.
                        Err(error) => {
                            let reason = error.to_string();
                            state.fail(reason, FaultName::Failed, key, now, &self.limits);
                        }
                    }
                }
            }
        }
        if let Some(number) = *number
            && state.replay.is_answer(number)
        {
            let is_new = state.asked_now.contains(&(Operation::Question, number));
            if !state.may_deliver(is_new, context) {
                return Poll::Pending;
            }
            if let Some(value) = state.replay.answer(number) {
                state.has_delivered = true;
                state.replayed();
                return Poll::Ready(value);
            }
        }
        state.register(context);
        Poll::Pending
    }

    /// Withdraws a question that the flow has dropped before it got the answer.
    pub(crate) fn drop_question(&self, key: &str, number: Option<u32>) {
        let now = self.clock.now();
        let mut state = self.lock();
        if !state.is_dropping() {
            return;
        }
        let Some(question) = number else {
            return state.leave_turn(Operation::Question, key);
        };
        if !state.replay.withdraw(question) {
            let skipped = state.shown == Some(question) && state.session.is_open(question);
            let command = Command::Withdraw { question, skipped };
            if let Ok(event) = state.session.decide(command, now, &self.limits.bounds) {
                state.push(event);
            }
        }
        state.replayed();
    }
}
