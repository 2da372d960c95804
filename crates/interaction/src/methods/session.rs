//! The session that a request names, and the errors about it.

use std::borrow::Cow;

use mcp_flow_engine::EngineError;
use mcp_flow_proto::RpcError;
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::{SessionId, State};
use serde_json::Value;

use super::reply;
use crate::backend::{SessionBackend, SessionRef};
use crate::fields::{Fields, fault as missing};
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::{
    SESSION_NOT_FOUND, VALIDATION_FAILED, engine_error, outdated_token, session_error,
};

/// The session that a request names: by `sessionId`, or by a token in `sessionToken` or in its
/// place.
pub(super) struct RequestedSession<'a> {
    backend: &'a SessionBackend,
    pub(super) session: SessionRef,
    /// Name of the session in errors, if a token names it.
    name: String,
    /// Set if the token is in `sessionToken`.
    has_token: bool,
}

impl<'a> RequestedSession<'a> {
    /// Reads the session from params, and checks that the caller may use it.
    pub(super) async fn read(
        interaction: &'a Interaction,
        context: &Context,
        fields: &mut Fields,
    ) -> Result<Self, RpcError> {
        let names = SessionNames::read(fields, interaction)?;
        Self::find(interaction, context, names).await
    }

    /// Finds the session by its names. A session of a flow that the caller may not use is reported
    /// as not found.
    pub(super) async fn find(
        interaction: &'a Interaction,
        context: &Context,
        SessionNames { session, name, has_token }: SessionNames,
    ) -> Result<Self, RpcError> {
        let requested = Self { backend: &interaction.inner.backend, session, name, has_token };
        requested.check_name()?;
        if !context.may_all(PermissionKind::Flow) {
            // Rare, so that its state does not enlarge that of every request.
            Box::pin(requested.check_permission(context)).await?;
        }
        Ok(requested)
    }

    async fn check_permission(&self, context: &Context) -> Result<(), RpcError> {
        let session = self.backend.inspect(&self.session, &owner(context)).await;
        let session = session.map_err(|error| self.error(&error))?;
        match context.may(PermissionKind::Flow, &session.summary().flow) {
            true => Ok(()),
            false => Err(session_error(SESSION_NOT_FOUND, &self.name())),
        }
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

/// The names of a session in params.
pub(super) struct SessionNames {
    session: SessionRef,
    name: String,
    has_token: bool,
}

impl SessionNames {
    fn read(fields: &mut Fields, interaction: &Interaction) -> Result<Self, RpcError> {
        let id = fields.optional_text("sessionId")?.map(Cow::Owned);
        let token = match interaction.inner.backend.is_client_held() {
            true => fields.optional_text("sessionToken")?.map(Cow::Owned),
            false => None,
        };
        Self::of(interaction, id, token)
    }

    /// Selects the name that counts. A malformed id is reported as not found.
    pub(super) fn of(
        interaction: &Interaction,
        id: Option<Cow<'_, str>>,
        token: Option<Cow<'_, str>>,
    ) -> Result<Self, RpcError> {
        if interaction.inner.backend.is_client_held() {
            let (token, name, has_token) = match (token, id) {
                (Some(token), id) => (token, id.unwrap_or_default(), true),
                (None, Some(id)) => (id.clone(), id, false),
                (None, None) => {
                    return Err(missing("sessionId", "or sessionToken is required"));
                }
            };
            let session = SessionRef::Token(token.into_owned());
            return Ok(Self { session, name: name.into_owned(), has_token });
        }
        let id = id.ok_or_else(|| missing("sessionId", "is required"))?;
        match id.parse() {
            Ok(id) => {
                Ok(Self { session: SessionRef::Id(id), name: String::new(), has_token: false })
            }
            Err(_) => Err(session_error(SESSION_NOT_FOUND, &id)),
        }
    }

    /// Returns the id, if a token does not name the session.
    pub(super) fn id(&self) -> Option<SessionId> {
        match self.session {
            SessionRef::Id(id) => Some(id),
            SessionRef::Token(_) => None,
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
