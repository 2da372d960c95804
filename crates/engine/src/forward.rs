//! Answers and signals to a session that another node works on, forwarded to that node.
//!
//! A flow may ask in one branch while another branch runs a step. Only the node that runs the step
//! can append then, so it is sent the answer, and its outcome comes back, both as messages of the
//! store. So are answers to a flow that this program does not have, and signals. A message may be lost; the caller
//! then gets an error that says to try again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use mcp_flow_session::event::Limit;
use mcp_flow_session::session::State;
use mcp_flow_session::{Epoch, InvalidAnswer, Owner, SessionId};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::engine::{AnswerReply, AnswerRequest, Engine};
use crate::error::EngineError;
use crate::membership::unavailable;
use crate::signals::{Signal, SignalReply};
use crate::view::QuestionId;

/// Forwarded answers and signals that wait for their outcome.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Outcome>>>,
}

/// Message from one node to another.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// Answers a session that the receiver works on.
    Answer { number: u64, from: Epoch, session: SessionId, owner: Owner, request: AnswerRequest },
    /// Signals a session that the receiver works on.
    Signal { number: u64, from: Epoch, session: SessionId, owner: Owner, signal: Signal },
    /// Revokes links of a session that the receiver works on, of one name or all.
    Revoke { number: u64, from: Epoch, session: SessionId, owner: Owner, name: Option<String> },
    /// Outcome of an answer or a signal that the receiver has forwarded.
    Answered { number: u64, outcome: Outcome },
    /// Something that concerns the clients of all nodes.
    Announced { from: Epoch, topic: String, content: Vec<u8> },
}

/// Outcome of a forwarded answer or signal. The status of the session is read from the store.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Accepted,
    Repeated,
    Ended,
    Rejected { violation: InvalidAnswer, left: u32 },
    Signalled { is_kept: bool },
    Revoked { count: usize },
    LinkUsed,
    LinkRevoked,
    BadSignal { name: String, reason: String },
    TooManySignals,
    NotFound,
    Expired(Limit),
    Cancelled,
    Transition { from: State, to: State },
    QuestionClosed { number: u32, attempt: u32 },
    RateLimited { millis: u64 },
    Failed,
}

impl Engine {
    /// Returns the node that works on a session, if it is another one.
    pub(crate) async fn other_holder(&self, id: SessionId) -> Result<Option<Epoch>, EngineError> {
        let Some((membership, shared)) = self.inner.membership.as_ref().zip(self.shared()) else {
            return Ok(None);
        };
        let holder = shared.head(id).await?.and_then(|head| head.holder);
        Ok(holder.filter(|holder| *holder != Epoch::NONE && *holder != membership.epoch()))
    }

    /// Has a node that has the flow of a session answer it, if there is one.
    pub(crate) async fn forward_answer_to_any(
        &self,
        id: SessionId,
        owner: &Owner,
        request: &AnswerRequest,
    ) -> Option<Result<AnswerReply, EngineError>> {
        for node in self.other_nodes().await {
            match self.forward_answer(node, id, owner, request).await {
                Err(EngineError::Busy | EngineError::Store(_)) => {}
                replied => return Some(replied),
            }
        }
        None
    }

    /// Has a node that has the flow of a session deliver a signal, if there is one.
    pub(crate) async fn forward_signal_to_any(
        &self,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Option<Result<SignalReply, EngineError>> {
        for node in self.other_nodes().await {
            match self.forward_signal(node, id, owner, signal).await {
                Err(EngineError::Busy | EngineError::Store(_)) => {}
                replied => return Some(replied),
            }
        }
        None
    }

    async fn other_nodes(&self) -> Vec<Epoch> {
        let nodes = self.nodes().await.unwrap_or_default();
        nodes.iter().map(|node| node.epoch).filter(|epoch| Some(*epoch) != self.epoch()).collect()
    }

    /// Has another node answer a session that it works on.
    pub(crate) async fn forward_answer(
        &self,
        holder: Epoch,
        id: SessionId,
        owner: &Owner,
        request: &AnswerRequest,
    ) -> Result<AnswerReply, EngineError> {
        let (session, owner_name, request) = (id, owner.clone(), request.clone());
        let message =
            |number, from| Message::Answer { number, from, session, owner: owner_name, request };
        let outcome = self.forward(holder, message).await?;
        let view = self.view(id, owner).await?;
        match outcome {
            Outcome::Accepted => Ok(AnswerReply::Accepted(view)),
            Outcome::Repeated => Ok(AnswerReply::Repeated(view)),
            Outcome::Ended => Ok(AnswerReply::Ended(view)),
            Outcome::Rejected { violation, left } => {
                Ok(AnswerReply::Rejected { violation, left, view })
            }
            refused => Err(refused.into_error()),
        }
    }

    /// Has another node signal a session that it works on.
    pub(crate) async fn forward_signal(
        &self,
        holder: Epoch,
        id: SessionId,
        owner: &Owner,
        signal: &Signal,
    ) -> Result<SignalReply, EngineError> {
        let (session, owner_name, signal) = (id, owner.clone(), signal.clone());
        let message =
            |number, from| Message::Signal { number, from, session, owner: owner_name, signal };
        match self.forward(holder, message).await? {
            Outcome::Signalled { is_kept } => {
                Ok(SignalReply { is_kept, view: self.view(id, owner).await? })
            }
            refused => Err(refused.into_error()),
        }
    }

    /// Has another node revoke links of a session that it works on.
    pub(crate) async fn forward_revocation(
        &self,
        holder: Epoch,
        id: SessionId,
        owner: &Owner,
        name: Option<&str>,
    ) -> Result<usize, EngineError> {
        let (session, owner, name) = (id, owner.clone(), name.map(str::to_owned));
        let message = |number, from| Message::Revoke { number, from, session, owner, name };
        match self.forward(holder, message).await? {
            Outcome::Revoked { count } => Ok(count),
            refused => Err(refused.into_error()),
        }
    }

    /// Sends a message to another node, and waits for the outcome.
    async fn forward(
        &self,
        holder: Epoch,
        message: impl FnOnce(u64, Epoch) -> Message,
    ) -> Result<Outcome, EngineError> {
        let unreachable = || unavailable("the node that works on the session does not reply");
        let (Some(membership), Some(shared)) = (&self.inner.membership, self.shared()) else {
            return Err(unreachable().into());
        };
        let forwards = &membership.forwards;
        let number = forwards.next.fetch_add(1, Ordering::Relaxed);
        let (sender, outcome) = oneshot::channel();
        forwards.waiting.lock().insert(number, sender);
        let _waiting = WaitingForward { forwards, number };
        shared.post(Some(holder), encode(&message(number, membership.epoch()))).await?;
        match timeout(FORWARD_TIMEOUT, outcome).await {
            Ok(Ok(outcome)) => Ok(outcome),
            _ => Err(unreachable().into()),
        }
    }

    /// Handles a message of another node. One that cannot be read, perhaps of a newer version, is
    /// ignored: its sender gives up waiting.
    pub(crate) fn receive_post(&self, message: Vec<u8>) {
        let Some(membership) = &self.inner.membership else { return };
        match serde_json::from_slice(&message) {
            Ok(Message::Answered { number, outcome }) => {
                if let Some(waiting) = membership.forwards.waiting.lock().remove(&number) {
                    let _ = waiting.send(outcome);
                }
            }
            Ok(Message::Answer { number, from, session, owner, request }) => {
                let engine = self.clone();
                self.inner.tasks.spawn(async move {
                    // Not forwarded again: it would go round in circles.
                    let outcome = outcome_of(engine.try_respond(session, &owner, &request).await);
                    engine.reply_to(from, number, outcome).await;
                });
            }
            Ok(Message::Signal { number, from, session, owner, signal }) => {
                let engine = self.clone();
                self.inner.tasks.spawn(async move {
                    let outcome = match engine.try_signal(session, &owner, &signal).await {
                        Ok(SignalReply { is_kept, .. }) => Outcome::Signalled { is_kept },
                        Err(error) => refused(error),
                    };
                    engine.reply_to(from, number, outcome).await;
                });
            }
            Ok(Message::Revoke { number, from, session, owner, name }) => {
                let engine = self.clone();
                self.inner.tasks.spawn(async move {
                    let outcome = match engine.try_revoke(session, &owner, name.as_deref()).await {
                        Ok(count) => Outcome::Revoked { count },
                        Err(error) => refused(error),
                    };
                    engine.reply_to(from, number, outcome).await;
                });
            }
            Ok(Message::Announced { from, topic, content }) => {
                if from != membership.epoch() {
                    membership.receivers.receive(&topic, &content);
                }
            }
            // During an upgrade, newer nodes send messages that this version does not know.
            Err(error) => tracing::debug!(%error, "cannot read a message of another node"),
        }
    }

    async fn reply_to(&self, node: Epoch, number: u64, outcome: Outcome) {
        let message = encode(&Message::Answered { number, outcome });
        if let Some(shared) = self.shared()
            && let Err(error) = shared.post(Some(node), message).await
        {
            tracing::warn!(%error, "cannot reply to another node");
        }
    }
}

impl Outcome {
    /// Returns the error of a request that the other node refused.
    fn into_error(self) -> EngineError {
        match self {
            Self::NotFound => EngineError::NotFound,
            Self::Expired(limit) => EngineError::Expired(limit),
            Self::Cancelled => EngineError::AlreadyCancelled,
            Self::Transition { from, to } => EngineError::Transition { from, to },
            Self::QuestionClosed { number, attempt } => {
                EngineError::QuestionClosed(QuestionId { number, attempt })
            }
            Self::BadSignal { name, reason } => EngineError::BadSignal { name, reason },
            Self::TooManySignals => EngineError::TooManySignals,
            Self::LinkUsed => EngineError::LinkUsed,
            Self::LinkRevoked => EngineError::LinkRevoked,
            Self::RateLimited { millis } => {
                EngineError::RateLimited { retry_after: Duration::from_millis(millis) }
            }
            // The others are replies to another kind of request.
            _ => EngineError::Busy,
        }
    }
}

/// Removes a forwarded answer whose caller has gone away.
struct WaitingForward<'a> {
    forwards: &'a Forwards,
    number: u64,
}

impl Drop for WaitingForward<'_> {
    fn drop(&mut self) {
        self.forwards.waiting.lock().remove(&self.number);
    }
}

fn outcome_of(replied: Result<AnswerReply, EngineError>) -> Outcome {
    match replied {
        Ok(AnswerReply::Accepted(_)) => Outcome::Accepted,
        Ok(AnswerReply::Repeated(_)) => Outcome::Repeated,
        Ok(AnswerReply::Ended(_)) => Outcome::Ended,
        Ok(AnswerReply::Rejected { violation, left, .. }) => Outcome::Rejected { violation, left },
        Err(error) => refused(error),
    }
}

fn refused(error: EngineError) -> Outcome {
    match error {
        EngineError::NotFound => Outcome::NotFound,
        EngineError::Expired(limit) => Outcome::Expired(limit),
        EngineError::AlreadyCancelled => Outcome::Cancelled,
        EngineError::Transition { from, to } => Outcome::Transition { from, to },
        EngineError::QuestionClosed(QuestionId { number, attempt }) => {
            Outcome::QuestionClosed { number, attempt }
        }
        EngineError::BadSignal { name, reason } => Outcome::BadSignal { name, reason },
        EngineError::TooManySignals => Outcome::TooManySignals,
        EngineError::LinkUsed => Outcome::LinkUsed,
        EngineError::LinkRevoked => Outcome::LinkRevoked,
        EngineError::RateLimited { retry_after } => {
            Outcome::RateLimited { millis: u64::try_from(retry_after.as_millis()).unwrap_or(0) }
        }
        error => {
            tracing::debug!(%error, "a forwarded request failed");
            Outcome::Failed
        }
    }
}

/// Encodes an announcement to all nodes.
pub(crate) fn encode_announcement(from: Epoch, topic: &str, content: &[u8]) -> Vec<u8> {
    let (topic, content) = (topic.to_owned(), content.to_vec());
    encode(&Message::Announced { from, topic, content })
}

fn encode(message: &Message) -> Vec<u8> {
    // Cannot fail: all keys are strings.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Longest time to wait for the reply of another node.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(3);
