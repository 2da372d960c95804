//! The session that a request names, and the errors about it.

use mcp_flow_engine::EngineError;
use mcp_flow_proto::RpcError;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::{SessionId, State};
use serde_json::Value;

use super::reply;
use crate::backend::{SessionBackend, SessionRef};
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{
    SESSION_NOT_FOUND, VALIDATION_FAILED, engine_error, outdated_token, session_error,
};

/// The session that a request names: by `sessionId`, or by a token in `sessionToken` or in its
/// place.
pub(super) struct RequestedSession<'a> {
    backend: &'a SessionBackend,
    pub(super) session: SessionRef,
    /// Name of the session in errors.
    name: String,
    /// Set if the token is in `sessionToken`.
    has_token: bool,
}

impl<'a> RequestedSession<'a> {
    /// Reads the session from params. A session of a flow that the caller may not use is reported
    /// as not found.
    pub(super) async fn read(
        interaction: &'a Interaction,
        context: &Context,
        fields: &mut Fields,
    ) -> Result<Self, RpcError> {
        let backend = &interaction.inner.backend;
        let requested = if backend.is_client_held() {
            let requested = Self::read_token(backend, fields)?;
            requested.check_name()?;
            requested
        } else {
            let (id, name) = fields.session()?;
            Self { backend, session: SessionRef::Id(id), name, has_token: false }
        };
        if !context.may_all(PermissionKind::Flow) {
            let session = backend.inspect(&requested.session, &owner(context)).await;
            let session = session.map_err(|error| requested.error(&error))?;
            if !context.may(PermissionKind::Flow, &session.summary().flow) {
                return Err(session_error(SESSION_NOT_FOUND, &requested.name));
            }
        }
        Ok(requested)
    }

    fn read_token(backend: &'a SessionBackend, fields: &mut Fields) -> Result<Self, RpcError> {
        let id = fields.optional_text("sessionId")?;
        let token = fields.optional_text("sessionToken")?;
        let (token, name, has_token) = match (token, id) {
            (Some(token), id) => (token, id.unwrap_or_default(), true),
            (None, Some(id)) => (id.clone(), id, false),
            (None, None) => return Err(fields.fault("sessionId", "or sessionToken is required")),
        };
        Ok(Self { backend, session: SessionRef::Token(token), name, has_token })
    }

    /// Rejects a token of another session than `sessionId` names (C-43).
    fn check_name(&self) -> Result<(), RpcError> {
        let is_named = self.has_token && !self.name.is_empty();
        // An invalid token is rejected when it is used.
        let id = is_named.then(|| self.backend.id(&self.session)).flatten();
        match id.is_none_or(|id| id.to_string() == self.name) {
            true => Ok(()),
            false => Err(session_error(VALIDATION_FAILED, &self.name)
                .with("field", "sessionToken")
                .details("This token is of another session; send the one that came with it.")),
        }
    }

    /// Returns the id; an internal error for a token that was accepted and has none.
    pub(super) fn id(&self) -> Result<SessionId, RpcError> {
        self.backend.id(&self.session).ok_or_else(RpcError::internal)
    }

    /// Returns the name of the session in errors.
    pub(super) fn name(&self) -> String {
        self.backend.id(&self.session).map_or_else(|| self.name.clone(), |id| id.to_string())
    }

    /// The error of a request that would have led to `state`.
    pub(super) fn error_towards(&self, state: State, error: &EngineError) -> RpcError {
        match (error, self.backend.id(&self.session)) {
            (EngineError::Outdated, Some(id)) => outdated_token(&id.to_string(), state),
            _ => self.error(error),
        }
    }

    /// The error of a request about the session.
    pub(super) fn error(&self, error: &EngineError) -> RpcError {
        match error {
            // A name that is no token says nothing about a session.
            EngineError::BadToken(_) if !self.has_token => {
                session_error(SESSION_NOT_FOUND, &self.name)
            }
            EngineError::BadToken(bad) => {
                // The session of an invalid token is not known.
                let error = match self.name.as_str() {
                    "" => RpcError::new(VALIDATION_FAILED),
                    name => session_error(VALIDATION_FAILED, name),
                };
                error.with("field", "sessionToken").details(bad.to_string())
            }
            other => engine_error(&self.name(), other),
        }
    }
}

/// Encodes a result, with the token of a client-held session.
pub(super) fn reply_with(context: &Context, mut result: Value, session: &SessionRef) -> Outcome {
    if let Some(token) = session.token() {
        result["sessionToken"] = token.into();
    }
    reply(context, result)
}
