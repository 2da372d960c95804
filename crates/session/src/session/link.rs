//! Links by which people and programs without access to a session send it a signal or an answer.

use super::{CommandError, Session};

/// A link to a session. It works once, and until it is revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Number of the link, counted from 0 among all links of the session.
    pub number: u32,
    /// Name of the signal, or key of the question.
    pub key: String,
    /// URL of the server, with which its URL begins.
    pub base: String,
    /// Random end of its URL: whoever knows it may use the link.
    pub token: String,
    /// Set if it answers a question, and does not send a signal.
    pub is_question: bool,
    /// Set if it needs a login.
    pub needs_login: bool,
    /// Set once a signal was sent by it.
    pub is_used: bool,
    /// Set once it was revoked.
    pub is_revoked: bool,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It can be used.
    Open,
    /// Its question is not asked yet, or was withdrawn.
    NotAsked,
    /// It was used, or its question was answered otherwise.
    Used,
    /// It was revoked.
    Revoked,
}

impl LinkState {
    /// Returns its name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::NotAsked => "not_asked",
            Self::Used => "used",
            Self::Revoked => "revoked",
        }
    }
}

impl Session {
    /// Returns the link whose token this is.
    pub fn find_link(&self, is_token: impl Fn(&str) -> bool) -> Option<&Link> {
        self.links.iter().find(|link| is_token(&link.token))
    }

    /// Returns the state of a link.
    pub fn link_state(&self, link: &Link) -> LinkState {
        let is_of_link = |of: Option<u32>| link.is_question && of == Some(link.number);
        if link.is_revoked {
            return LinkState::Revoked;
        }
        let is_answered = self.history.iter().any(|turn| is_of_link(turn.asked.link))
            || self
                .queued
                .iter()
                .any(|queued| is_of_link(queued.asked.link) && queued.answered.is_some());
        if link.is_used || is_answered {
            return LinkState::Used;
        }
        let is_asked = self.open.as_ref().is_some_and(|open| is_of_link(open.link))
            || self.queued.iter().any(|queued| is_of_link(queued.asked.link));
        if link.is_question && !is_asked { LinkState::NotAsked } else { LinkState::Open }
    }

    /// Checks that a signal may be sent by a link.
    pub(super) fn check_link(&self, number: u32) -> Result<(), CommandError> {
        match self.link(number).filter(|link| !link.is_question) {
            Some(link) if link.is_revoked => Err(CommandError::LinkRevoked),
            Some(link) if !link.is_used => Ok(()),
            _ => Err(CommandError::LinkUsed),
        }
    }

    pub(super) fn link(&self, number: u32) -> Option<&Link> {
        self.links.get(usize::try_from(number).ok()?)
    }

    pub(super) fn link_mut(&mut self, number: u32) -> Option<&mut Link> {
        self.links.get_mut(usize::try_from(number).ok()?)
    }
}

/// Most links of a session.
pub const MAX_LINKS: usize = 100;
