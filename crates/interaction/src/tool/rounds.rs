//! A flow called in several rounds (2026-07-28).
//!
//! The client carries, sealed, which session it is in, which turn it was asked and which attempt at
//! it this is. An answer sent twice leads to the same question or the same end, and is one attempt if
//! it was wrong; another answer to a question that was answered is refused.

use mcp_flow_engine::{OpenQuestion, Reply as Answered, Response, Standing, View};
use mcp_flow_proto::model::{ElicitAction, ElicitResult, InputRequest};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::input::InputRequired;
use mcp_flow_session::{Ending, Session, SessionId, State};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::form::Form;
use super::{Call, Called, DECLINED, Said, output};
use crate::fault::{refused, transition};

/// What the client carries from one round to the next.
#[derive(Debug, Deserialize, Serialize)]
struct Carried {
    session: SessionId,
    turn: u32,
    #[serde(default)]
    attempt: u32,
    key: String,
}

impl Call {
    pub(super) async fn by_rounds(&self) -> Result<Called, Called> {
        match self.carried()? {
            Some(carried) => self.next_round(carried).await,
            None => {
                let view = self.start().await?;
                let unfinished = self.ends_with_call(view.id);
                let called = self.told(self.settled(view).await?)?;
                unfinished.disarm();
                Ok(called)
            }
        }
    }

    fn carried(&self) -> Result<Option<Carried>, RpcError> {
        let Some(carried) = self.context.carried() else { return Ok(None) };
        serde_json::from_value(carried).map(Some).map_err(|_| {
            RpcError::invalid_params("requestState is of another version; begin again without it")
        })
    }

    async fn next_round(&self, carried: Carried) -> Result<Called, Called> {
        let Carried { session: id, turn, attempt, key } = carried;
        let failed = |error| refused(&id.to_string(), &error);
        let Some(response) = self.context.input_response(&key) else {
            let view = self.engine.view(id, &self.owner).await.map_err(failed)?;
            return self.told(self.settled(view).await?);
        };
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            RpcError::invalid_params(format!("inputResponses.{key} is malformed: {error}"))
                .with("field", format!("inputResponses.{key}"))
        })?;
        let session = self.engine.inspect(id, &self.owner).await.map_err(failed)?;
        let answered = match asked(&session, turn) {
            Some(question) => match Form::of(&question)?.said(result) {
                Said::Answer(value) => {
                    let response = Response::from(value).for_turn(turn).at_attempt(attempt);
                    self.answer(id, response).await?
                }
                Said::Declined => return self.decline(id, &session, turn, &key).await,
            },
            None if result.action != ElicitAction::Accept => {
                return self.decline(id, &session, turn, &key).await;
            }
            // The session is over, and its questions with it; what it led to is still known.
            None => self.repeat(id, turn, Form::readings(&key, result)).await?,
        };
        if let Answered::Repeated(_) = answered {
            let session = self.engine.inspect(id, &self.owner).await.map_err(failed)?;
            if let Some(next) = asked(&session, turn.saturating_add(1)) {
                return self.asks(id, &next);
            }
        }
        self.told(self.settled(answered.view().clone()).await?)
    }

    /// Ends a session whose open question somebody will not answer. Said twice, it counts once; a
    /// question that was answered cannot be declined any more.
    async fn decline(
        &self,
        id: SessionId,
        session: &Session,
        turn: u32,
        key: &str,
    ) -> Result<Called, Called> {
        let is_repeated = session.ended.as_ref().is_some_and(|ended| {
            let reason = Some(DECLINED.to_owned());
            ended.turns == turn && ended.ending == Ending::Cancelled { reason }
        });
        let is_open = session.open.is_some() && session.history.len() == place(turn);
        if is_open {
            let reason = Some(DECLINED.to_owned());
            let cancelled = self.engine.cancel(id, &self.owner, reason).await;
            cancelled.map_err(|error| refused(&id.to_string(), &error))?;
        } else if !is_repeated {
            return Err(transition(&id.to_string(), session.state, State::Processing).into());
        }
        Ok(output::declined(key).into())
    }

    /// Gives an answer to a session that is over, in each way it may have been read while its
    /// question was known. Nothing can come of it but what came of it before.
    async fn repeat(
        &self,
        id: SessionId,
        turn: u32,
        readings: Vec<Value>,
    ) -> Result<Answered, RpcError> {
        let mut answered = Err(RpcError::internal());
        for value in readings {
            answered = self.answer(id, Response::from(value).for_turn(turn)).await;
            if answered.is_ok() {
                break;
            }
        }
        answered
    }

    /// The answer to a round.
    fn told(&self, view: View) -> Result<Called, Called> {
        match view.standing {
            Standing::Ended(ended) => Ok(output::of(&ended).into()),
            Standing::Waiting(open) => self.asks(view.id, &open),
            Standing::Working(_) => Err(RpcError::internal().into()),
        }
    }

    fn asks(&self, session: SessionId, open: &OpenQuestion) -> Result<Called, Called> {
        let params = Form::of(open)?.params(self.context.revision())?;
        let OpenQuestion { turn, attempt, key, .. } = open;
        let carried = Carried { session, turn: *turn, attempt: *attempt, key: key.clone() };
        let carried = serde_json::to_value(carried).map_err(|_| RpcError::internal())?;
        let request = InputRequest { method: method::ELICITATION_CREATE, params };
        Ok(Called::Asks(InputRequired::new().ask(open.key.as_str(), request).carry(carried)))
    }
}

/// The question of a turn, open or answered.
fn asked(session: &Session, turn: u32) -> Option<OpenQuestion> {
    let past = session.history.get(place(turn)).map(|turn| &turn.asked);
    let open = session.open.as_ref().filter(|_| place(turn) == session.history.len());
    past.or(open).map(|asked| OpenQuestion {
        turn,
        attempt: 0,
        key: asked.key.clone(),
        prompt: asked.prompt.clone(),
        progress: None,
        violation: None,
    })
}

fn place(turn: u32) -> usize {
    usize::try_from(turn).unwrap_or(usize::MAX)
}
