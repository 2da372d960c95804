//! Session backend: sessions stored by the server, or held by the client in signed tokens (C-43).
//!
//! The methods and the rounds of `tools/call` run on either one by the same code.

use std::time::Duration;

use mcp_flow_engine::{
    AnswerReply, AnswerRequest, ClientHeldSessions, Engine, EngineError, StartRequest, View,
};
use mcp_flow_session::event::Ending;
use mcp_flow_session::{Owner, Session, SessionId};
use serde::{Deserialize, Serialize};

/// Backend of the sessions of a server.
pub(crate) enum SessionBackend {
    /// The engine's store has them.
    Stored(Engine),
    /// Clients hold them.
    ClientHeld(ClientHeldSessions),
}

/// Reference to a session: its id, or a token that contains it. A turn of a client-held session
/// returns a new one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum SessionRef {
    #[serde(rename = "session")]
    Id(SessionId),
    #[serde(rename = "token")]
    Token(String),
}

impl SessionRef {
    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::Id(_) => None,
            Self::Token(token) => Some(token),
        }
    }
}

impl SessionBackend {
    pub(crate) fn is_client_held(&self) -> bool {
        matches!(self, Self::ClientHeld(_))
    }

    /// Returns the id of a session; none for an invalid token.
    pub(crate) fn id(&self, session: &SessionRef) -> Option<SessionId> {
        match (self, session) {
            (_, SessionRef::Id(id)) => Some(*id),
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => sessions.session(token),
            (Self::Stored(_), SessionRef::Token(_)) => None,
        }
    }

    /// Starts a session. A client-held one has settled when this returns.
    pub(crate) async fn start(
        &self,
        start: StartRequest,
        timeout: Duration,
    ) -> Result<(View, SessionRef), EngineError> {
        match self {
            Self::Stored(engine) => {
                let view = engine.start(start).await?;
                let id = SessionRef::Id(view.id);
                Ok((view, id))
            }
            Self::ClientHeld(sessions) => {
                let (view, token) = sessions.start_within(timeout, start).await?;
                Ok((view, SessionRef::Token(token)))
            }
        }
    }

    /// Answers the open question. A client-held session has settled when this returns.
    pub(crate) async fn respond(
        &self,
        session: &SessionRef,
        owner: &Owner,
        answer: AnswerRequest,
        timeout: Duration,
    ) -> Result<(AnswerReply, SessionRef), EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => {
                Ok((engine.respond(*id, owner, answer).await?, session.clone()))
            }
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => {
                let respond = sessions.respond_within(timeout, token, owner, answer);
                // So that its state does not enlarge that of stored sessions.
                let replied = Box::pin(respond).await?;
                Ok((replied.0, SessionRef::Token(replied.1)))
            }
            _ => Err(EngineError::NotFound),
        }
    }

    /// Waits until the flow of a session is not working any more, or for `timeout`.
    pub(crate) async fn wait(
        &self,
        session: &SessionRef,
        owner: &Owner,
        timeout: Duration,
    ) -> Result<View, EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => engine.wait(*id, owner, timeout).await,
            // The flow of a client-held session works only during a turn.
            _ => self.view(session, owner).await,
        }
    }

    pub(crate) async fn view(
        &self,
        session: &SessionRef,
        owner: &Owner,
    ) -> Result<View, EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => engine.view(*id, owner).await,
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => {
                sessions.view(token, owner).await
            }
            _ => Err(EngineError::NotFound),
        }
    }

    pub(crate) async fn inspect(
        &self,
        session: &SessionRef,
        owner: &Owner,
    ) -> Result<Session, EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => engine.inspect(*id, owner).await,
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => {
                sessions.inspect(token, owner).await
            }
            _ => Err(EngineError::NotFound),
        }
    }

    /// Returns the state of a session for another turn; a token that has expired allows none.
    pub(crate) async fn inspect_for_turn(
        &self,
        session: &SessionRef,
        owner: &Owner,
    ) -> Result<Session, EngineError> {
        let inspected = self.inspect(session, owner).await?;
        match inspected.ending() {
            Some(Ending::Expired(limit)) if self.is_client_held() => {
                Err(EngineError::Expired(*limit))
            }
            _ => Ok(inspected),
        }
    }

    pub(crate) async fn finish(
        &self,
        session: &SessionRef,
        owner: &Owner,
    ) -> Result<(View, SessionRef), EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => {
                Ok((engine.finish(*id, owner).await?, session.clone()))
            }
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => {
                let (view, token) = sessions.finish(token, owner).await?;
                Ok((view, SessionRef::Token(token)))
            }
            _ => Err(EngineError::NotFound),
        }
    }

    pub(crate) async fn cancel(
        &self,
        session: &SessionRef,
        owner: &Owner,
        reason: Option<String>,
    ) -> Result<(View, SessionRef), EngineError> {
        match (self, session) {
            (Self::Stored(engine), SessionRef::Id(id)) => {
                Ok((engine.cancel(*id, owner, reason).await?, session.clone()))
            }
            (Self::ClientHeld(sessions), SessionRef::Token(token)) => {
                let (view, token) = sessions.cancel(token, owner, reason).await?;
                Ok((view, SessionRef::Token(token)))
            }
            _ => Err(EngineError::NotFound),
        }
    }
}
