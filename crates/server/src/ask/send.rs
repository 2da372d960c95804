//! Delivery of a question to the client, by revision.

use mcp_flow_proto::method;
use mcp_flow_proto::model::InputRequest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Ask, AskError, Capability};
use crate::context::Context;
use crate::input::{AskOutcome, random};

impl Ask<'_> {
    /// Requires that the client declares a capability.
    pub(super) fn need(self, capability: Capability) -> Result<(), AskError> {
        if self.context.client_can(capability) {
            return Ok(());
        }
        if let Some(mut round) = self.context.rounds().current() {
            let (name, part) = capability.path();
            round.record_missing(name, part);
        }
        Err(AskError::Missing(capability))
    }

    /// Sends the question and decodes the answer.
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

/// Takes the answer from what the client sent along. If there is none, this never returns: the call
/// is answered with a request for input, and its future is dropped.
async fn input(context: &Context, key: &str, request: InputRequest) -> Result<Value, AskError> {
    let outcome = match context.rounds().current() {
        Some(mut round) => round.ask(key, request),
        None => return Err(AskError::NotHere),
    };
    match outcome {
        AskOutcome::Answered(answer) => Ok(answer),
        AskOutcome::Changed(key) => Err(AskError::Changed(key)),
        AskOutcome::Suspended => Err(AskError::Suspended),
        AskOutcome::Refused => {
            let message = "the call was tried again without the answer".to_owned();
            Err(AskError::Refused { code: None, message })
        }
        AskOutcome::Asked(key) => {
            let _asked = PendingQuestion { context, key };
            std::future::pending().await
        }
    }
}

/// A pending question; withdrawn when dropped.
struct PendingQuestion<'a> {
    context: &'a Context,
    key: String,
}

impl Drop for PendingQuestion<'_> {
    fn drop(&mut self) {
        if let Some(mut round) = self.context.rounds().current() {
            round.withdraw(&self.key);
        }
    }
}

/// The key of questions without one.
fn automatic_key(method: &str) -> &'static str {
    match method {
        method::SAMPLING_CREATE_MESSAGE => "sampling",
        method::ROOTS_LIST => "roots",
        _ => "elicitation",
    }
}

/// An unguessable identifier.
pub(super) fn fresh_id() -> Result<String, getrandom::Error> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
