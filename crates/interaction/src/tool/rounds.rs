//! A flow called in several rounds (2026-07-28).
//!
//! `requestState` holds, sealed, the session, the turn and the attempt. A repeated answer to a
//! stored session leads to the same question or the same result, and is one attempt if it was
//! invalid; another answer to an answered question is rejected. A client-held session is itself in
//! `requestState` (C-43).

use mcp_flow_engine::{AnswerReply, AnswerRequest, OpenQuestion, SessionStatus, View};
use mcp_flow_proto::decode_error::json_problem;
use mcp_flow_proto::model::{ElicitAction, ElicitResult, InputRequest};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::input::InputRequired;
use mcp_flow_session::{Ending, Session, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::Form;
use super::{Call, CallResult, FormAnswer, output};
use crate::backend::{SessionBackend, SessionRef};
use crate::protocol_errors::{engine_error, transition};

/// State that the client carries from one round to the next.
#[derive(Debug, Deserialize, Serialize)]
struct RoundState {
    #[serde(flatten)]
    session: SessionRef,
    /// Turn that was asked; that of the token if the client holds the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    key: String,
}

impl Call {
    pub(super) async fn by_rounds(&self) -> Result<CallResult, CallResult> {
        if let Some(state) = self.round_state()? {
            return self.next_round(state).await;
        }
        let timeout = self.engine.limits().operation;
        let started = self.backend().start(self.start_request(), timeout).await;
        let (view, session) = started.map_err(|error| self.cannot_start(error))?;
        // A client-held session ends when its token is dropped.
        let unfinished = match session {
            SessionRef::Id(id) => Some(self.cancel_on_drop(id)),
            SessionRef::Token(_) => None,
        };
        let result = self.reply_to_round(self.settled(view).await?, session)?;
        if let Some(unfinished) = unfinished {
            unfinished.disarm();
        }
        Ok(result)
    }

    fn backend(&self) -> &SessionBackend {
        &self.interaction.inner.backend
    }

    fn round_state(&self) -> Result<Option<RoundState>, RpcError> {
        let Some(state) = self.context.carried() else { return Ok(None) };
        serde_json::from_value(state).map(Some).map_err(|_| {
            RpcError::invalid_params("requestState is of another version; begin again without it")
        })
    }

    async fn next_round(&self, state: RoundState) -> Result<CallResult, CallResult> {
        let RoundState { session, key, .. } = &state;
        let name = self.backend().id(session).map_or_else(String::new, |id| id.to_string());
        let failed = |error| engine_error(&name, &error);
        let Some(response) = self.context.input_response(key) else {
            let view = self.backend().view(session, &self.owner).await.map_err(failed)?;
            return self.reply_to_round(self.settled(view).await?, state.session);
        };
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            let problem = json_problem(&error);
            RpcError::invalid_params(format!("inputResponses.{key} is malformed: {problem}"))
                .with("field", format!("inputResponses.{key}"))
        })?;
        let inspected = self.backend().inspect_for_turn(session, &self.owner).await;
        let inspected = inspected.map_err(failed)?;
        let round = Round {
            call: self,
            turn: state.turn.unwrap_or_else(|| inspected.turn()),
            attempt: state.attempt.unwrap_or_else(|| inspected.attempts()),
            session,
            key,
            name: &name,
        };
        // The flow has withdrawn the question, so the answer is too late.
        let is_late = inspected.ended.is_none() && round.turn < inspected.turn();
        if is_late && question_of(&inspected, round.turn).is_none() {
            let view = self.backend().view(session, &self.owner).await.map_err(failed)?;
            return self.reply_to_round(self.settled(view).await?, state.session);
        }
        let (replied, session) = match question_of(&inspected, round.turn) {
            Some(question) => match Form::of(&question)?.answer(result) {
                FormAnswer::Value(value) => round.respond(value, Some(round.attempt)).await?,
                FormAnswer::Declined => return round.decline(&inspected).await,
            },
            None if result.action != ElicitAction::Accept => {
                return round.decline(&inspected).await;
            }
            // The session has ended, and its questions are erased; its result is still known.
            None => round.repeat(Form::readings(key, result)).await?,
        };
        if let AnswerReply::Repeated(_) = replied {
            let inspected = self.backend().inspect(&session, &self.owner).await.map_err(failed)?;
            if let Some(next) = question_of(&inspected, round.turn.saturating_add(1)) {
                return self.ask_by_round(session, &next);
            }
        }
        self.reply_to_round(self.settled(replied.view().clone()).await?, session)
    }

    /// Replies with the question a session waits with, or its result.
    fn reply_to_round(&self, view: View, session: SessionRef) -> Result<CallResult, CallResult> {
        match &view.status {
            SessionStatus::Ended(ended) => Ok(self.interaction.output_of(ended).into()),
            SessionStatus::Waiting(open) => self.ask_by_round(session, open),
            SessionStatus::Working(_) => self.still_working(&view),
        }
    }

    fn ask_by_round(
        &self,
        session: SessionRef,
        open: &OpenQuestion,
    ) -> Result<CallResult, CallResult> {
        let params = Form::of(open)?.params(self.context.revision())?;
        // A token contains turn and attempt.
        let is_stored = session.token().is_none();
        let state = RoundState {
            session,
            turn: is_stored.then_some(open.turn),
            attempt: is_stored.then_some(open.attempt),
            key: open.key.clone(),
        };
        let state = serde_json::to_value(state).map_err(|_| RpcError::internal())?;
        let request = InputRequest { method: method::ELICITATION_CREATE, params };
        Ok(CallResult::Asks(InputRequired::new().ask(open.key.as_str(), request).carry(state)))
    }
}

/// One round: the turn that was asked, and the session it belongs to.
struct Round<'a> {
    call: &'a Call,
    session: &'a SessionRef,
    name: &'a str,
    turn: u32,
    attempt: u32,
    key: &'a str,
}

impl Round<'_> {
    async fn respond(
        &self,
        value: Value,
        attempt: Option<u32>,
    ) -> Result<(AnswerReply, SessionRef), RpcError> {
        let mut answer = AnswerRequest::from(value).for_turn(self.turn);
        answer.attempt = attempt;
        let timeout = self.call.engine.limits().operation;
        let backend = self.call.backend();
        let replied = backend.respond(self.session, &self.call.owner, answer, timeout).await;
        replied.map_err(|error| engine_error(self.name, &error))
    }

    /// Cancels a session whose open question the user declined. Repeated, it counts once; an
    /// answered question cannot be declined.
    async fn decline(&self, session: &Session) -> Result<CallResult, CallResult> {
        let reason = Some(output::declined_reason(self.key));
        let is_repeated = session.ended.as_ref().is_some_and(|ended| {
            let reason = reason.clone();
            ended.turns == self.turn && ended.ending == Ending::Cancelled { reason }
        });
        let is_open = session.open.is_some() && session.turn() == self.turn;
        if is_open {
            let cancelled = self.call.backend().cancel(self.session, &self.call.owner, reason);
            cancelled.await.map_err(|error| engine_error(self.name, &error))?;
        } else if !is_repeated {
            return Err(transition(self.name, session.state, State::Processing).into());
        }
        Ok(output::declined(self.key).into())
    }

    /// Repeats an answer to a session that has ended, in each way the form may have meant it. Only
    /// the result it led to can come of it.
    async fn repeat(&self, readings: Vec<Value>) -> Result<(AnswerReply, SessionRef), RpcError> {
        let mut replied = Err(RpcError::internal());
        for value in readings {
            replied = self.respond(value, None).await;
            if replied.is_ok() {
                break;
            }
        }
        replied
    }
}

/// Returns the question of a turn, open or answered.
fn question_of(session: &Session, turn: u32) -> Option<OpenQuestion> {
    let past = session.history.iter().find(|answered| answered.turn == turn);
    let past = past.map(|turn| (turn.number, &turn.asked));
    let open = session.open.as_ref().filter(|_| session.turn() == turn);
    past.or(open.map(|open| (session.number, open))).map(|(number, asked)| OpenQuestion {
        number,
        turn,
        attempt: 0,
        key: asked.key.clone(),
        prompt: asked.prompt.clone(),
        progress: None,
        violation: None,
    })
}
