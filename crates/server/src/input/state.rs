//! The sealed state that a client carries between rounds.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow_proto::RpcError;
use mcp_flow_seal::{Seal, UnsealError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fingerprint::Fingerprint;
use crate::context::Context;

/// The state of a request between two rounds.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    /// Fingerprint of the request it belongs to.
    pub(super) request: Option<Fingerprint>,
    /// Questions of the last round, by key.
    pub(super) asked: BTreeMap<String, Asked>,
    /// Answers so far, by key.
    pub(super) answers: BTreeMap<String, Answer>,
    /// The handler's own state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) carried: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) question: Fingerprint,
    /// Set if a missing answer counts as declined (C-33).
    pub(super) silence_refuses: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) question: Option<Fingerprint>,
    pub(super) value: Value,
}

impl State {
    /// Seals the state for the caller.
    pub(super) fn seal(&self, context: &Context) -> Result<String, RpcError> {
        let server = context.server();
        let (limits, content) = (server.limits(), serde_json::to_vec(self));
        let content = content.map_err(|_| RpcError::internal())?;
        let (size, limit) = (content.len(), limits.request_state_bytes);
        if size > limit {
            return Err(RpcError::too_large(limit).details(format!(
                "What was answered so far is {size} bytes long, and a client carries at most \
                 {limit}; answer with less."
            )));
        }
        let expires = now().saturating_add(limits.request_state_time.as_secs());
        server.seal(request_state(context), Some(expires), &content)
    }

    /// Opens a state sent by a caller. Rejects one of another caller or request, or one that has
    /// expired.
    pub(super) fn open(
        context: &Context,
        text: &str,
        request: Fingerprint,
    ) -> Result<Self, RpcError> {
        let keys = context.server().sealing_keys().map_err(|_| RpcError::internal())?;
        let content = keys.open(request_state(context), now(), text).map_err(rejection)?;
        let state: Self = serde_json::from_slice(&content).map_err(|error| {
            // Sealed by another version, which encodes it differently.
            tracing::warn!(%error, "a request state cannot be decoded");
            rejection(UnsealError::UnknownKey)
        })?;
        if state.request != Some(request) {
            return Err(RpcError::invalid_params(
                "requestState belongs to another request; send it with the same method, name and \
                 arguments that it was given for",
            ));
        }
        Ok(state)
    }
}

fn request_state(context: &Context) -> Seal<'_> {
    Seal { purpose: "request-state", bound_to: context.principal().name().as_bytes() }
}

/// The error for a rejected state. It does not reveal whose state it was.
fn rejection(reason: UnsealError) -> RpcError {
    let what = match reason {
        UnsealError::Expired => "requestState has expired",
        _ => "requestState was not issued to this caller by this server",
    };
    RpcError::invalid_params(format!(
        "{what}; begin again with the request alone, without requestState and inputResponses"
    ))
}

/// Seconds since the Unix epoch.
fn now() -> u64 {
    // A clock before 1970 is wrong; treat everything as new.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
