//! A flow called in several rounds (2026-07-28).
//!
//! The client carries, sealed, which session it is in and which turn it was asked. An answer sent
//! twice leads to the same question or the same end; another answer to the same question is refused.

use mcp_flow_engine::{OpenQuestion, Reply as Answered, Standing, View};
use mcp_flow_flow::SessionId;
use mcp_flow_proto::model::{ElicitResult, InputRequest};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::input::InputRequired;
use serde::{Deserialize, Serialize};

use super::form::Form;
use super::{Call, Called, Said, output};
use crate::fault::refused;

/// What the client carries from one round to the next.
#[derive(Debug, Deserialize, Serialize)]
struct Carried {
    session: SessionId,
    turn: u32,
    key: String,
}

impl Call {
    pub(super) async fn by_rounds(&self) -> Result<Called, RpcError> {
        match self.carried()? {
            Some(carried) => self.next_round(carried).await,
            None => {
                let view = self.start().await?;
                let unfinished = self.ends_with_call(view.id);
                let called = self.told(self.settled(view).await?);
                unfinished.disarm();
                called
            }
        }
    }

    fn carried(&self) -> Result<Option<Carried>, RpcError> {
        let Some(carried) = self.context.carried() else { return Ok(None) };
        serde_json::from_value(carried).map(Some).map_err(|_| {
            RpcError::invalid_params("requestState is of another version; begin again without it")
        })
    }

    async fn next_round(&self, carried: Carried) -> Result<Called, RpcError> {
        let Carried { session, turn, key } = carried;
        let failed = |error| refused(&session.to_string(), &error);
        let Some(response) = self.context.input_response(&key) else {
            let view = self.engine.view(session, &self.owner).await.map_err(failed)?;
            return self.told(self.settled(view).await?);
        };
        let asked = self.asked(session, turn).await?;
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            RpcError::invalid_params(format!("inputResponses.{key} is malformed: {error}"))
                .with("field", format!("inputResponses.{key}"))
        })?;
        let form = asked.as_ref().map(Form::of).transpose()?;
        let said = match form {
            Some(form) => form.said(result),
            // The session is over, and its questions with it; what it led to is still known.
            None => Form::said_to_nothing(&key, result),
        };
        let value = match said {
            Said::Answer(value) => value,
            Said::Declined => {
                let reason = Some("the user declined to answer".to_owned());
                // A decline that is sent twice finds the session ended by the first.
                let _ = self.engine.cancel(session, &self.owner, reason).await;
                return Ok(output::declined(&key).into());
            }
        };
        let answered = self.answer(session, turn, value).await?;
        if let Answered::Repeated(_) = answered
            && let Some(next) = self.asked(session, turn.saturating_add(1)).await?
        {
            return self.asks(session, &next);
        }
        self.told(self.settled(answered.view().clone()).await?)
    }

    /// The question of a turn, open or answered.
    async fn asked(&self, id: SessionId, turn: u32) -> Result<Option<OpenQuestion>, RpcError> {
        let session = self.engine.inspect(id, &self.owner).await;
        let session = session.map_err(|error| refused(&id.to_string(), &error))?;
        let place = usize::try_from(turn).unwrap_or(usize::MAX);
        let past = session.history.get(place).map(|turn| &turn.asked);
        let open = session.open.as_ref().filter(|_| place == session.history.len());
        Ok(past.or(open).map(|asked| OpenQuestion {
            turn,
            key: asked.key.clone(),
            prompt: asked.prompt.clone(),
            progress: None,
            violation: None,
        }))
    }

    /// The answer to a round.
    fn told(&self, view: View) -> Result<Called, RpcError> {
        match view.standing {
            Standing::Ended(ended) => Ok(output::of(&ended).into()),
            Standing::Waiting(open) => self.asks(view.id, &open),
            Standing::Working(_) => Err(RpcError::internal()),
        }
    }

    fn asks(&self, session: SessionId, open: &OpenQuestion) -> Result<Called, RpcError> {
        let params = Form::of(open)?.params(self.context.revision())?;
        let carried = Carried { session, turn: open.turn, key: open.key.clone() };
        let carried = serde_json::to_value(carried).map_err(|_| RpcError::internal())?;
        let request = InputRequest { method: method::ELICITATION_CREATE, params };
        Ok(Called::Asks(InputRequired::new().ask(open.key.as_str(), request).carry(carried)))
    }
}
