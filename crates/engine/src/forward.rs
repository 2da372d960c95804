//! Answers to a session that another node works on, forwarded to that node.
//!
//! A flow may ask in one branch while another branch runs a step. Only the node that runs the step
//! can append then, so it is sent the answer, and its outcome comes back, both as messages of the
//! store. So are answers to a flow that this program does not have. A message may be lost; the caller
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
use crate::view::QuestionId;

/// Forwarded answers that wait for their outcome.
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
    /// Outcome of an answer that the receiver has forwarded.
    Answered { number: u64, outcome: Outcome },
    /// Something that concerns the clients of all nodes.
    Announced { from: Epoch, topic: String, content: Vec<u8> },
}

/// Outcome of a forwarded answer. The status of the session is read from the store.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Accepted,
    Repeated,
    Ended,
    Rejected { violation: InvalidAnswer, left: u32 },
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
    pub(crate) async fn forward_to_any(
        &self,
        id: SessionId,
        owner: &Owner,
        request: &AnswerRequest,
    ) -> Option<Result<AnswerReply, EngineError>> {
        let nodes = self.nodes().await.ok()?;
        for node in nodes.iter().filter(|node| Some(node.epoch) != self.epoch()) {
            match self.forward_answer(node.epoch, id, owner, request).await {
                Err(EngineError::Busy | EngineError::Store(_)) => {}
                replied => return Some(replied),
            }
        }
        None
    }

    /// Has another node answer a session that it works on.
    pub(crate) async fn forward_answer(
        &self,
        holder: Epoch,
        id: SessionId,
        owner: &Owner,
        request: &AnswerRequest,
    ) -> Result<AnswerReply, EngineError> {
        let unreachable = || unavailable("the node that works on the session does not reply");
        let (Some(membership), Some(shared)) = (&self.inner.membership, self.shared()) else {
            return Err(unreachable().into());
        };
        let forwards = &membership.forwards;
        let number = forwards.next.fetch_add(1, Ordering::Relaxed);
        let (sender, outcome) = oneshot::channel();
        forwards.waiting.lock().insert(number, sender);
        let _waiting = WaitingForward { forwards, number };
        let (from, owner_name) = (membership.epoch(), owner.clone());
        let message = Message::Answer {
            number,
            from,
            session: id,
            owner: owner_name,
            request: request.clone(),
        };
        shared.post(Some(holder), encode(&message)).await?;
        let outcome = timeout(FORWARD_TIMEOUT, outcome).await;
        let Ok(Ok(outcome)) = outcome else { return Err(unreachable().into()) };
        let view = self.view(id, owner).await?;
        match outcome {
            Outcome::Accepted => Ok(AnswerReply::Accepted(view)),
            Outcome::Repeated => Ok(AnswerReply::Repeated(view)),
            Outcome::Ended => Ok(AnswerReply::Ended(view)),
            Outcome::Rejected { violation, left } => {
                Ok(AnswerReply::Rejected { violation, left, view })
            }
            Outcome::NotFound => Err(EngineError::NotFound),
            Outcome::Expired(limit) => Err(EngineError::Expired(limit)),
            Outcome::Cancelled => Err(EngineError::AlreadyCancelled),
            Outcome::Transition { from, to } => Err(EngineError::Transition { from, to }),
            Outcome::QuestionClosed { number, attempt } => {
                Err(EngineError::QuestionClosed(QuestionId { number, attempt }))
            }
            Outcome::RateLimited { millis } => {
                Err(EngineError::RateLimited { retry_after: Duration::from_millis(millis) })
            }
            Outcome::Failed => Err(EngineError::Busy),
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
                    let message = encode(&Message::Answered { number, outcome });
                    if let Some(shared) = engine.shared()
                        && let Err(error) = shared.post(Some(from), message).await
                    {
                        tracing::warn!(%error, "cannot reply to another node");
                    }
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
        Err(EngineError::NotFound) => Outcome::NotFound,
        Err(EngineError::Expired(limit)) => Outcome::Expired(limit),
        Err(EngineError::AlreadyCancelled) => Outcome::Cancelled,
        Err(EngineError::Transition { from, to }) => Outcome::Transition { from, to },
        Err(EngineError::QuestionClosed(QuestionId { number, attempt })) => {
            Outcome::QuestionClosed { number, attempt }
        }
        Err(EngineError::RateLimited { retry_after }) => {
            Outcome::RateLimited { millis: u64::try_from(retry_after.as_millis()).unwrap_or(0) }
        }
        Err(error) => {
            tracing::debug!(%error, "a forwarded answer failed");
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
