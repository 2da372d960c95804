//! Delivery of questions and results to clients: pushed by requests, or inline in results.
//!
//! A task pushes what follows a reply, and ends then: a session that waits for an answer has no
//! task, unless a timer of its flow may withdraw the question.

use std::pin::Pin;
use std::time::Duration;

use mcp_flow_engine::{Notice, OpenQuestion, SessionStatus, View};
use mcp_flow_server::Context;
use mcp_flow_server::connection::SendPosition;
use mcp_flow_server::context::{Client, ClientError};
use mcp_flow_session::event::{Ending, FaultName, FlowFault, SessionEnded};
use mcp_flow_session::prompt::FlowProgress;
use mcp_flow_session::{Owner, SessionId};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::expiry::notify_expired;
use crate::interaction::{Interaction, owner};
use crate::wire;

/// Way in which a client gets what is next (C-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// By requests of the server.
    Push,
    /// In the results of its own requests.
    Inline,
}

impl Delivery {
    /// Selects push, unless the client cannot be sent requests now or declined them.
    fn of(context: &Context) -> Self {
        let stateless = context.revision().is_stateless();
        let declared = context.peer().is_some_and(|peer| peer.capabilities.inline_interaction);
        match stateless || declared || !context.client().is_reachable() {
            true => Self::Inline,
            false => Self::Push,
        }
    }
}

/// Next step of a session after a request.
#[derive(Debug)]
pub(crate) enum NextUp {
    /// A question, asked without further work.
    Asked(OpenQuestion),
    /// A question that is in the reply, and may be withdrawn by a timer.
    Shown(OpenQuestion),
    /// The flow is working, on its first question or a later one.
    Working { first: bool },
    /// The end.
    Ended(SessionEnded),
}

impl NextUp {
    pub(crate) fn of(view: &View, first: bool) -> Self {
        match &view.status {
            SessionStatus::Waiting(open) => Self::Asked(open.clone()),
            SessionStatus::Working(_) => Self::Working { first },
            SessionStatus::Ended(ended) => Self::Ended(ended.clone()),
        }
    }
}

impl Interaction {
    /// Selects the delivery for a caller. Client-held sessions are always inline.
    pub(crate) fn delivery(&self, context: &Context) -> Delivery {
        match self.inner.backend.is_client_held() {
            true => Delivery::Inline,
            false => Delivery::of(context),
        }
    }

    /// Pushes what is next to the client, after the reply was sent (INT-078).
    pub(crate) fn deliver(&self, context: &Context, view: &View, next: NextUp) {
        let push = Push {
            interaction: self.clone(),
            client: context.client().outside_the_call(),
            id: view.id,
            owner: owner(context),
            limit: context.limits().client_request_time,
        };
        // Dropped when the reply was sent, or with the call if there is none.
        let (replying, replied) = oneshot::channel::<()>();
        context.hold_until_flushed(replying);
        tokio::spawn(async move {
            let _ = replied.await;
            push.send(next).await;
        });
    }
}

/// A push to the client of a session.
struct Push {
    interaction: Interaction,
    client: Client,
    id: SessionId,
    owner: Owner,
    limit: Duration,
}

impl Push {
    async fn send(self, next: NextUp) {
        let (mut next, mut asking) = (next, Asking::Prompt);
        loop {
            next = match next {
                NextUp::Asked(open) => {
                    self.ask(&open, asking).await;
                    NextUp::Shown(open)
                }
                NextUp::Shown(open) => {
                    if !self.is_withdrawn(&open).await {
                        return;
                    }
                    NextUp::Working { first: false }
                }
                NextUp::Ended(ended) => return self.complete(&ended).await,
                NextUp::Working { first } => {
                    asking = if first { Asking::Prompt } else { Asking::Continue };
                    let followed = tokio::select! {
                        followed = self.follow() => followed,
                        () = self.client.closed() => None,
                    };
                    match followed {
                        Some(followed) => followed,
                        None => return,
                    }
                }
            };
        }
    }

    /// Waits for the answer to a question, if a timer of its flow may withdraw it. Returns whether
    /// it did.
    async fn is_withdrawn(&self, open: &OpenQuestion) -> bool {
        let engine = self.interaction.engine();
        let view = engine.view(self.id, &self.owner).await;
        if view.is_ok_and(|view| view.wakes.is_none()) {
            return false;
        }
        tokio::select! {
            is_withdrawn = engine.wait_withdrawn(self.id, &self.owner, open.number) => is_withdrawn,
            () = self.client.closed() => false,
        }
    }

    /// Follows a working flow until it asks or ends.
    async fn follow(&self) -> Option<NextUp> {
        let engine = self.interaction.engine();
        // Subscribed before the status is read, so that no notice is missed.
        let mut notices = engine.subscribe(self.id, &self.owner).await.ok()?;
        let mut sending: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
        let mut latest: Option<FlowProgress> = None;
        loop {
            match engine.view(self.id, &self.owner).await.map(|view| view.status) {
                Ok(SessionStatus::Waiting(open)) => return Some(NextUp::Asked(open)),
                Ok(SessionStatus::Ended(ended)) => return Some(NextUp::Ended(ended)),
                Ok(SessionStatus::Working(_)) => {}
                Err(_) => return None,
            }
            // Until something other than progress happens. Only the latest progress is sent, when
            // the client has acknowledged the one before.
            loop {
                tokio::select! {
                    biased;
                    notice = notices.next() => match notice {
                        Some(Notice::Progress(progress)) => latest = Some(progress),
                        Some(_) | None => break,
                    },
                    () = finish(&mut sending) => sending = None,
                    else => {}
                }
                if sending.is_none()
                    && let Some(progress) = latest.take()
                {
                    sending = Some(Box::pin(self.send_progress(progress)));
                }
            }
        }
    }

    async fn send_progress(&self, progress: FlowProgress) {
        let params = wire::progress_params(self.id, &progress);
        // A client may ignore progress.
        let _ = self.request(CONTINUE, &params, |_| ()).await;
    }

    /// Asks, and fails the session if the client does not acknowledge (INT-034).
    async fn ask(&self, open: &OpenQuestion, asking: Asking) {
        let engine = self.interaction.engine();
        if let Ok(view) = engine.view(self.id, &self.owner).await {
            self.interaction.schedule_warning(&view, &self.client, &self.owner);
        }
        let (method, params) = match asking {
            Asking::Prompt => (PROMPT, wire::prompt_params(self.id, open)),
            Asking::Continue => (CONTINUE, wire::continue_params(self.id, open)),
        };
        let queued =
            |position| self.interaction.record_delivered_turn(self.id, open.turn, position);
        let sent = self.request(method, &params, queued).await;
        let Err(ClientError::TimedOut(limit)) = sent else { return };
        // An unreachable client may come back; a reachable one that does not acknowledge is stuck.
        let is_open = |view: &View| match &view.status {
            SessionStatus::Waiting(now) => now.turn == open.turn,
            _ => false,
        };
        let still = engine.view(self.id, &self.owner).await.is_ok_and(|view| is_open(&view));
        if still && self.client.is_reachable() {
            let message = format!(
                "the client did not acknowledge the prompt within {} ms",
                limit.as_millis()
            );
            let fault = FlowFault::new(FaultName::Timeout, message).at(method);
            // Fails if it was answered just now.
            let _ = engine.fail(self.id, &self.owner, fault).await;
        }
    }

    /// Sends the result, unless the client completed the session early. Its reply is ignored
    /// (C-08).
    async fn complete(&self, ended: &SessionEnded) {
        self.interaction.cancel_warning(self.id);
        if ended.finished_early {
            return;
        }
        let queued =
            |position| self.interaction.record_delivered_turn(self.id, ended.turns, position);
        if let Ending::Expired(limit) = ended.ending {
            queued(self.client.queue_position());
            return notify_expired(&self.client, self.id, ended.at, limit).await;
        }
        let Some(params) = wire::complete_params(self.id, ended) else { return };
        let _ = self.request(COMPLETE, &params, queued).await;
    }

    /// Sends a request, after others have been answered if there are too many. Calls `queued` with
    /// the position from which the client can know of it.
    async fn request(
        &self,
        method: &str,
        params: &Value,
        queued: impl Fn(SendPosition) + Send + Sync,
    ) -> Result<Value, ClientError> {
        loop {
            match self.client.request_observed(self.limit, method, params, &queued).await {
                Err(ClientError::TooMany(_)) => tokio::time::sleep(PAUSE).await,
                answered => return answered,
            }
        }
    }
}

/// Waits for the request in flight; for ever if there is none.
async fn finish(sending: &mut Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

/// Request by which a question is asked (C-09).
#[derive(Clone, Copy, Debug)]
enum Asking {
    /// For the first question, and those asked without further work.
    Prompt,
    /// For questions after work.
    Continue,
}

const PROMPT: &str = "interaction.prompt";
const CONTINUE: &str = "interaction.continue";
const COMPLETE: &str = "interaction.complete";

/// Pause before a request is tried again that exceeded the limit.
const PAUSE: Duration = Duration::from_millis(20);
