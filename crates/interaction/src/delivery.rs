//! Sending a client what a session leads to, after the reply to what led to it.
//!
//! A task sends it and lives no longer than that: a session that waits for its answer has none.

use std::pin::Pin;
use std::time::Duration;

use mcp_flow_engine::{Notice, OpenQuestion, Standing, View};
use mcp_flow_server::Context;
use mcp_flow_server::connection::Moment;
use mcp_flow_server::context::{Client, ClientError};
use mcp_flow_session::event::{Ended, Ending, Fault, FaultName};
use mcp_flow_session::prompt::Progress;
use mcp_flow_session::{Owner, SessionId};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::interaction::{Interaction, owner};
use crate::warning::tell_expired;
use crate::wire;

/// How a client hears of what comes next (C-06).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// By requests of the server's.
    Push,
    /// In the results of its own requests.
    Inline,
}

impl Delivery {
    /// What fits the caller: whoever cannot be sent requests now, or does not want to be, finds
    /// everything in results.
    pub(crate) fn of(context: &Context) -> Self {
        let stateless = context.revision().is_stateless();
        let declared = context.peer().is_some_and(|peer| peer.capabilities.inline_interaction);
        match stateless || declared || !context.client().is_reachable() {
            true => Self::Inline,
            false => Self::Push,
        }
    }
}

/// What a request has led to.
#[derive(Debug)]
pub(crate) enum Outlook {
    /// This question, which follows directly.
    Asked(OpenQuestion),
    /// The flow is at work, and will ask its first question or another one.
    Working { first: bool },
    /// Its end.
    Ended(Ended),
}

impl Outlook {
    pub(crate) fn of(view: &View, first: bool) -> Self {
        match &view.standing {
            Standing::Waiting(open) => Self::Asked(open.clone()),
            Standing::Working(_) => Self::Working { first },
            Standing::Ended(ended) => Self::Ended(ended.clone()),
        }
    }
}

impl Interaction {
    /// Sends the client what a request has led to, once its reply has left (INT-078).
    pub(crate) fn deliver(&self, context: &Context, view: &View, outlook: Outlook) {
        let push = Push {
            interaction: self.clone(),
            client: context.client().outside_the_call(),
            id: view.id,
            owner: owner(context),
            limit: context.limits().client_request_time,
        };
        // Dropped when the reply has left, or with the call if there will be none.
        let (replying, replied) = oneshot::channel::<()>();
        context.hold_until_flushed(replying);
        tokio::spawn(async move {
            let _ = replied.await;
            push.send(outlook).await;
        });
    }
}

/// Who is told, and of what.
struct Push {
    interaction: Interaction,
    client: Client,
    id: SessionId,
    owner: Owner,
    limit: Duration,
}

impl Push {
    async fn send(self, outlook: Outlook) {
        match outlook {
            Outlook::Asked(open) => self.ask(&open, Asking::Prompt).await,
            Outlook::Ended(ended) => self.complete(&ended).await,
            Outlook::Working { first } => {
                let asking = if first { Asking::Prompt } else { Asking::Continue };
                tokio::select! {
                    () = self.watch(asking) => {}
                    () = self.client.closed() => {}
                }
            }
        }
    }

    /// Follows a flow at work until it asks or ends.
    async fn watch(&self, asking: Asking) {
        let engine = self.interaction.engine();
        // Before looking, so that nothing is missed in between.
        let Ok(mut notices) = engine.subscribe(self.id, &self.owner).await else { return };
        let mut telling: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;
        let mut latest: Option<Progress> = None;
        loop {
            match engine.view(self.id, &self.owner).await.map(|view| view.standing) {
                Ok(Standing::Waiting(open)) => return self.ask(&open, asking).await,
                Ok(Standing::Ended(ended)) => return self.complete(&ended).await,
                Ok(Standing::Working(_)) => {}
                Err(_) => return,
            }
            // Until something other than progress happens. Of progress only the latest counts, and
            // the next is sent when the client has taken note of the one before.
            loop {
                tokio::select! {
                    biased;
                    notice = notices.next() => match notice {
                        Some(Notice::Progress(progress)) => latest = Some(progress),
                        Some(_) | None => break,
                    },
                    () = finish(&mut telling) => telling = None,
                    else => {}
                }
                if telling.is_none()
                    && let Some(progress) = latest.take()
                {
                    telling = Some(Box::pin(self.tell(progress)));
                }
            }
        }
    }

    async fn tell(&self, progress: Progress) {
        let params = wire::progress_params(self.id, &progress);
        // Whoever does not care how far it is need not say so.
        let _ = self.request(CONTINUE, &params, |_| ()).await;
    }

    /// Asks, and sees to it that the client takes note (INT-034).
    async fn ask(&self, open: &OpenQuestion, asking: Asking) {
        let engine = self.interaction.engine();
        if let Ok(view) = engine.view(self.id, &self.owner).await {
            self.interaction.warn_in_time(&view, &self.client, &self.owner);
        }
        let (method, params) = match asking {
            Asking::Prompt => (PROMPT, wire::prompt_params(self.id, open)),
            Asking::Continue => (CONTINUE, wire::continue_params(self.id, open)),
        };
        let shown = |moment| self.interaction.inner.shown.note(self.id, open.turn, moment);
        let sent = self.request(method, &params, shown).await;
        let Err(ClientError::TimedOut(limit)) = sent else { return };
        // Who does not listen at the moment may come back; who does and says nothing is stuck.
        let is_open = |view: &View| match &view.standing {
            Standing::Waiting(now) => now.turn == open.turn,
            _ => false,
        };
        let still = engine.view(self.id, &self.owner).await.is_ok_and(|view| is_open(&view));
        if still && self.client.is_reachable() {
            let message = format!(
                "the client did not acknowledge the prompt within {} ms",
                limit.as_millis()
            );
            let fault = Fault::new(FaultName::Timeout, message).at(method);
            // It may have been answered at this very moment, which is as well.
            let _ = engine.fail(self.id, &self.owner, fault).await;
        }
    }

    /// Tells of the end, unless the client has brought it about and knows the result. What it makes
    /// of it changes nothing (C-08).
    async fn complete(&self, ended: &Ended) {
        self.interaction.do_not_warn(self.id);
        if ended.finished_early {
            return;
        }
        let shown = |moment| self.interaction.inner.shown.note(self.id, ended.turns, moment);
        if let Ending::Expired(limit) = ended.ending {
            shown(self.client.moment());
            return tell_expired(&self.client, self.id, ended.at, limit).await;
        }
        let Some(params) = wire::complete_params(self.id, ended) else { return };
        let _ = self.request(COMPLETE, &params, shown).await;
    }

    /// Sends a request as soon as the client has answered enough others. Calls `queued` with the
    /// moment from which on the client can know of it.
    async fn request(
        &self,
        method: &str,
        params: &Value,
        queued: impl Fn(Moment) + Send + Sync,
    ) -> Result<Value, ClientError> {
        loop {
            match self.client.request_observed(self.limit, method, params, &queued).await {
                Err(ClientError::TooMany(_)) => tokio::time::sleep(PAUSE).await,
                answered => return answered,
            }
        }
    }
}

/// Waits for what is under way; for ever if nothing is.
async fn finish(telling: &mut Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    match telling {
        Some(telling) => telling.await,
        None => std::future::pending().await,
    }
}

/// By which request a question is asked (C-09).
#[derive(Clone, Copy, Debug)]
enum Asking {
    /// It follows directly, or is the first.
    Prompt,
    /// Work was done since the last one.
    Continue,
}

const PROMPT: &str = "interaction.prompt";
const CONTINUE: &str = "interaction.continue";
const COMPLETE: &str = "interaction.complete";

/// How long to wait before a client is asked again that has too many questions open.
const PAUSE: Duration = Duration::from_millis(20);
