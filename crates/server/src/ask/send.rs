//! The way of a question to the client, by revision.

use mcp_flow_proto::method;
use mcp_flow_proto::model::InputRequest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Ask, AskError, Capability};
use crate::context::Context;
use crate::input::{Fate, random};

impl Ask<'_> {
    /// Makes sure that the client has declared something.
    pub(super) fn need(self, capability: Capability) -> Result<(), AskError> {
        if self.context.client_can(capability) {
            return Ok(());
        }
        if let Some(mut round) = self.context.round() {
            let (name, part) = capability.path();
            round.lacks(name, part);
        }
        Err(AskError::Missing(capability))
    }

    /// Asks, and reads the answer.
    pub(super) async fn send<T: DeserializeOwned>(
        self,
        method: &'static str,
        params: Value,
    ) -> Result<T, AskError> {
        let answer = if self.context.revision().is_stateless() {
            let key = self.key.unwrap_or_else(|| automatic_key(method));
            input(self.context, key, InputRequest { method, params }).await?
        } else {
            let limits = self.context.limits();
            let limit = match method {
                method::ROOTS_LIST => limits.client_request_time,
                _ => limits.answer_time,
            };
            self.context.client().request_within(limit, method, &params).await?
        };
        serde_path_to_error::deserialize(answer)
            .map_err(|error| AskError::Unusable(error.to_string()))
    }
}

/// Finds the answer among what the client brought. If it is not there, this never returns: the
/// call is answered with a request for it, and what runs is dropped.
async fn input(context: &Context, key: &str, request: InputRequest) -> Result<Value, AskError> {
    let fate = match context.round() {
        Some(mut round) => round.ask(key, request),
        None => return Err(AskError::NotHere),
    };
    match fate {
        Fate::Answered(answer) => Ok(answer),
        Fate::Changed(key) => Err(AskError::Changed(key)),
        Fate::AskedInVain => Err(AskError::Suspended),
        Fate::Refused => {
            let message = "the call was tried again without the answer".to_owned();
            Err(AskError::Refused { code: None, message })
        }
        Fate::Asked(key) => {
            let _asked = Asked { context, key };
            std::future::pending().await
        }
    }
}

/// A question somebody waits for the answer of.
struct Asked<'a> {
    context: &'a Context,
    key: String,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if let Some(mut round) = self.context.round() {
            round.withdraw(&self.key);
        }
    }
}

/// The key of questions that were not given one.
fn automatic_key(method: &str) -> &'static str {
    match method {
        method::SAMPLING_CREATE_MESSAGE => "sampling",
        method::ROOTS_LIST => "roots",
        _ => "elicitation",
    }
}

/// A name nobody can guess.
pub(super) fn fresh_id() -> Result<String, getrandom::Error> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
