//! Links: using and revoking them, by whoever has the URL and by the owner of the session.

use std::sync::OnceLock;

use mcp_flow_session::session::{Answer, Link, LinkState};
use mcp_flow_session::{Command, InvalidAnswer, Owner, Session, SessionId, StoreError};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

use crate::engine::{AnswerReply, AnswerRequest, CONFLICT_ATTEMPTS, Engine, is_conflict};
use crate::error::EngineError;
use crate::signals::Signal;
use crate::view::{OpenQuestion, View};

/// Purpose of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkTarget {
    /// Set if it answers a question, and does not send a signal.
    pub(crate) is_question: bool,
    /// Set if it needs a login.
    pub(crate) needs_login: bool,
}

/// A link that was found by its token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundLink {
    /// Name of the flow.
    pub flow: String,
    /// Name of the signal, or key of the question.
    pub name: String,
    /// Its state.
    pub state: LinkState,
    /// Set if it needs a login.
    pub needs_login: bool,
    /// The question that it answers, if that is open.
    pub question: Option<OpenQuestion>,
    id: SessionId,
    owner: Owner,
    number: u32,
    is_question: bool,
}

impl FoundLink {
    /// Returns whether it answers a question, and does not send a signal.
    pub fn is_question(&self) -> bool {
        self.is_question
    }
}

/// Reply to the use of a link.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum LinkReply {
    /// It was used.
    Accepted,
    /// The answer is invalid. The link can be used again.
    Rejected(InvalidAnswer),
}

impl Engine {
    /// Sets the URL of the server, with which [links](crate::Flow::link) begin: scheme, host and path
    /// without a slash at the end. The first one counts.
    pub fn set_link_base(&self, url: impl Into<String>) {
        let _ = self.inner.link_base.set(url.into());
    }

    /// Finds a link by the end of its URL. Changes nothing.
    ///
    /// Fails with [`EngineError::NotFound`] if there is none, or its session has ended.
    pub async fn find_link(&self, token: &str) -> Result<FoundLink, EngineError> {
        let (id, token) = split(token).ok_or(EngineError::NotFound)?;
        let (_, session) = self.read_any_journal(id).await?.ok_or(EngineError::NotFound)?;
        let has_ended = session.ended.is_some() || session.closing.is_some();
        if has_ended || self.expired(&session).is_some() {
            return Err(EngineError::NotFound);
        }
        // Their digests, so that the time tells nothing of the tokens.
        let token = digest(&SHA256, token.as_bytes());
        let is_token = |known: &str| digest(&SHA256, known.as_bytes()).as_ref() == token.as_ref();
        let link = session.find_link(is_token).ok_or(EngineError::NotFound)?;
        Ok(found(id, &session, link))
    }

    /// Uses a link: sends its signal with this value, or answers its question. `by` is the name of the
    /// principal that uses it, if it has logged in.
    ///
    /// The caller checks that somebody has logged in if the link [needs](FoundLink::needs_login) that.
    pub async fn use_link(
        &self,
        token: &str,
        value: Value,
        by: Option<&str>,
    ) -> Result<LinkReply, EngineError> {
        let link = self.find_link(token).await?;
        match link.state {
            LinkState::Open => {}
            LinkState::NotAsked => return Err(EngineError::LinkNotAsked),
            LinkState::Used => return Err(EngineError::LinkUsed),
            LinkState::Revoked => return Err(EngineError::LinkRevoked),
        }
        let FoundLink { id, owner, name, number, .. } = link;
        let Some(question) = link.question else {
            let signal = Signal { name, value, link: Some(number) };
            self.send_signal(id, &owner, &signal).await?;
            return Ok(LinkReply::Accepted);
        };
        let mut metadata = Map::from_iter([("by".to_owned(), "link".into())]);
        metadata.extend(by.map(|by| ("principal".to_owned(), by.into())));
        let answer = Answer { value, timestamp: None, metadata };
        let request = AnswerRequest { answer, ..AnswerRequest::default() };
        match self.respond(id, &owner, request.for_question(question.id())).await {
            Ok(AnswerReply::Accepted(_) | AnswerReply::Repeated(_)) => Ok(LinkReply::Accepted),
            Ok(AnswerReply::Rejected { violation, .. }) => Ok(LinkReply::Rejected(violation)),
            Ok(AnswerReply::Ended(_)) => Err(EngineError::NotFound),
            Err(EngineError::QuestionClosed(_)) => Err(EngineError::LinkUsed),
            Err(error) => Err(error),
        }
    }

    /// Revokes the links of a session that can still be used; those of one name, if it is given.
    /// Returns how many there were.
    pub async fn revoke_links(
        &self,
        id: SessionId,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<usize, EngineError> {
        let mut revoked = self.revoke_anywhere(id, owner, name).await;
        for _ in 1..CONFLICT_ATTEMPTS {
            if !is_conflict(&revoked) {
                break;
            }
            revoked = self.revoke_anywhere(id, owner, name).await;
        }
        revoked
    }

    async fn revoke_anywhere(
        &self,
        id: SessionId,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<usize, EngineError> {
        let revoked = self.try_revoke(id, owner, name).await;
        if !is_conflict(&revoked) {
            return revoked;
        }
        let Some(holder) = self.other_holder(id).await? else { return revoked };
        match self.forward_revocation(holder, id, owner, name).await {
            // Meanwhile the session may have been released.
            Err(EngineError::Busy) => revoked,
            forwarded => forwarded,
        }
    }

    /// Revokes links in one turn. Fails with a conflict if another writer came first.
    pub(crate) async fn try_revoke(
        &self,
        id: SessionId,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<usize, EngineError> {
        self.check_open()?;
        let slot = self.owned_slot(id, owner).await?;
        let turn = self.lock_turn(&slot).await;
        if slot.is_stale() {
            return Err(StoreError::Conflict(id).into());
        }
        self.expire(&slot, &turn).await?;
        let session = slot.session();
        let is_open = |link: &&Link| {
            let state = session.link_state(link);
            matches!(state, LinkState::Open | LinkState::NotAsked)
        };
        let links = session.links.iter().filter(is_open);
        let links: Vec<_> = links.filter(|link| name.is_none_or(|name| link.key == name)).collect();
        for link in &links {
            slot.execution.command(Command::RevokeLink { link: link.number })?;
        }
        let count = links.len();
        self.commit(&slot, &turn).await?;
        if count == 0 {
            // Not from outdated memory.
            self.check_current(&slot).await?;
        }
        drop(turn);
        self.release_slot(&slot);
        Ok(count)
    }
}

fn found(id: SessionId, session: &Session, link: &Link) -> FoundLink {
    let view = View::of(id, session, None);
    let asked = session.open.iter().map(|open| (session.number, open.link));
    let asked = asked.chain(session.queued.iter().map(|queued| (queued.number, queued.asked.link)));
    let number = asked
        .filter(|(_, of)| link.is_question && *of == Some(link.number))
        .map(|(number, _)| number)
        .next();
    FoundLink {
        flow: session.started.flow.clone(),
        name: link.key.clone(),
        state: session.link_state(link),
        needs_login: link.needs_login,
        question: view.questions().find(|question| Some(question.number) == number).cloned(),
        id,
        owner: session.started.owner.clone(),
        number: link.number,
        is_question: link.is_question,
    }
}

/// Splits the end of a URL into the session and the token.
fn split(end: &str) -> Option<(SessionId, &str)> {
    let is_hex = end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (id, token) =
        end.split_at_checked(DIGITS).filter(|(_, token)| is_hex && token.len() == DIGITS)?;
    let bits = u128::from_str_radix(id, 16).ok()?;
    Some((SessionId::from_random(bits), token))
}

/// Returns the session and the token of a link.
pub(crate) fn token_of(url: &str) -> Option<(SessionId, &str)> {
    split(url.rsplit_once("/link/")?.1)
}

/// URL of the server, once it is known.
pub(crate) type LinkBase = OnceLock<String>;

/// Hexadecimal digits of a session and of a token.
const DIGITS: usize = 32;
