//! A flow called in several rounds whose session the client carries (C-43).

use mcp_flow_engine::{OpenQuestion, Response, Standing, Stateless, View};
use mcp_flow_proto::model::{ElicitResult, InputRequest};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::input::InputRequired;
use serde::{Deserialize, Serialize};

use super::form::Form;
use super::{Call, Called, DECLINED, Said, output};
use crate::fault::refused;

/// What the client carries from one round to the next.
#[derive(Debug, Deserialize, Serialize)]
struct Carried {
    token: String,
    key: String,
}

impl Call {
    pub(super) async fn by_tokens(&self, sessions: &Stateless) -> Result<Called, Called> {
        let Some(carried) = self.context.carried() else {
            let started = sessions.start(self.beginning()).await;
            let (view, token) = started.map_err(|error| self.cannot_start(error))?;
            return self.ask_with(view, token);
        };
        let Carried { token, key } = serde_json::from_value(carried).map_err(|_| {
            RpcError::invalid_params("requestState is of another version; begin again without it")
        })?;
        let name = sessions.session(&token).map_or_else(String::new, |id| id.to_string());
        let failed = |error| refused(&name, &error);
        let view = sessions.view(&token, &self.owner).await.map_err(failed)?;
        let (Some(response), Standing::Waiting(open)) =
            (self.context.input_response(&key), &view.standing)
        else {
            return self.ask_with(view, token);
        };
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            RpcError::invalid_params(format!("inputResponses.{key} is malformed: {error}"))
        })?;
        let value = match Form::of(open)?.said(result) {
            Said::Answer(value) => value,
            Said::Declined => {
                let reason = Some(DECLINED.to_owned());
                // Where a guard is, nobody can answer any more; without one nothing is kept.
                sessions.cancel(&token, &self.owner, reason).await.map_err(failed)?;
                return Ok(output::declined(&key).into());
            }
        };
        let response = Response::from(value);
        let answered = sessions.respond(&token, &self.owner, response).await.map_err(failed)?;
        self.ask_with(answered.0.view().clone(), answered.1)
    }

    fn ask_with(&self, view: View, token: String) -> Result<Called, Called> {
        let open: OpenQuestion = match view.standing {
            Standing::Ended(ended) => return Ok(output::of(&ended).into()),
            Standing::Waiting(open) => open,
            Standing::Working(_) => return Err(RpcError::internal().into()),
        };
        let params = Form::of(&open)?.params(self.context.revision())?;
        let carried = Carried { token, key: open.key.clone() };
        let carried = serde_json::to_value(carried).map_err(|_| RpcError::internal())?;
        let request = InputRequest { method: method::ELICITATION_CREATE, params };
        Ok(Called::Asks(InputRequired::new().ask(open.key, request).carry(carried)))
    }
}
