//! Telling the client that something has changed, once for a burst of changes.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::error::RATE_LIMITED;
use mcp_flow_proto::model::{SubscriptionParams, Topics, subscription_meta};
use mcp_flow_proto::{RpcError, method, write};
use serde::Serialize;
use tokio::time::Instant;

use super::calls::Ticket;
use super::dispatch::shutting_down;
use super::{Route, Shared};
use crate::context::Context;
use crate::handler::Outcome;

/// Who listens on one connection, and what they have not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The `subscriptions/listen` requests of a stateless client. One of a handshake revision is
    /// told without having asked.
    listening: Vec<Listening>,
    /// Whether the server knows that someone may want news here.
    joined: bool,
    news: Topics,
    /// When the news is told; it may grow until then.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Listening {
    request: Context,
    ticket: Ticket,
    topics: Topics,
}

impl Subscriptions {
    /// When there is something to tell.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Forgets those who have stopped listening.
    fn prune(&mut self) {
        self.listening.retain(|listening| !listening.request.is_answered());
    }
}

impl Shared {
    /// Has the server tell this connection of changes from now on. Most connections of a request
    /// that stands alone end without, which spares them a place in the server's list.
    pub(crate) fn join_listeners(self: &Arc<Self>) {
        if !std::mem::replace(&mut self.state().subscriptions.joined, true) {
            self.server.connections().add(self);
        }
    }

    /// The connection is gone.
    pub(super) fn leave_listeners(self: &Arc<Self>) {
        if self.state().subscriptions.joined {
            self.server.connections().remove(self);
        }
    }

    /// Keeps a request open for as long as its sender listens, and says that it begins.
    ///
    /// It holds no place: it costs nothing while nothing changes.
    pub(super) fn listen(self: &Arc<Self>, request: &Context, topics: Topics) {
        let most = self.server.limits().subscriptions;
        self.join_listeners();
        let mut state = self.state();
        if state.lifecycle.is_ending() {
            drop(state);
            return request.finish(&Err(shutting_down()));
        }
        state.subscriptions.prune();
        if state.subscriptions.listening.len() >= most {
            drop(state);
            let details = format!("This connection has {most} subscriptions; cancel one first.");
            return request.finish(&Err(RpcError::new(RATE_LIMITED).details(details)));
        }
        // All under one lock, so that nothing is told before the acknowledgement.
        let ticket = state.calls.run(request.clone());
        let begun = SubscriptionParams {
            meta: Some(subscription_meta(request.id())),
            notifications: Some(topics),
        };
        self.tell(request.route(), method::SUBSCRIPTIONS_ACKNOWLEDGED, &begun);
        state.subscriptions.listening.push(Listening { request: request.clone(), ticket, topics });
    }

    /// Notes that something has changed; the client is told a little later, once for all that
    /// changes until then.
    pub(crate) fn note_change(&self, topics: Topics) {
        let mut state = self.state();
        state.subscriptions.news = state.subscriptions.news.union(topics);
        state.subscriptions.due.get_or_insert_with(|| Instant::now() + BURST);
        drop(state);
        self.wake.notify_one();
    }

    /// Tells the news, if it is time to.
    pub(super) fn tell_news(&self) {
        let mut state = self.state();
        if state.subscriptions.due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        if self.is_congested() {
            // Who does not read is told later; the news will be the same.
            state.subscriptions.due = Some(Instant::now() + BURST);
            return;
        }
        state.subscriptions.due = None;
        let news = std::mem::take(&mut state.subscriptions.news);
        if state.lifecycle.is_ending() || !news.tools_list_changed {
            return;
        }
        if state.lifecycle.is_ready() {
            let params = SubscriptionParams { meta: None, notifications: None };
            self.tell(&Route::default(), method::TOOLS_LIST_CHANGED, &params);
        }
        state.subscriptions.prune();
        for listening in &state.subscriptions.listening {
            if listening.topics.tools_list_changed {
                let meta = Some(subscription_meta(listening.request.id()));
                let params = SubscriptionParams { meta, notifications: None };
                self.tell(listening.request.route(), method::TOOLS_LIST_CHANGED, &params);
            }
        }
    }

    /// Ends all subscriptions with a reply, as a server that goes away should.
    pub(super) fn end_subscriptions(&self) {
        let mut state = self.state();
        let listening = std::mem::take(&mut state.subscriptions.listening);
        for Listening { request, ticket, .. } in &listening {
            state.calls.close(request.id(), *ticket);
        }
        drop(state);
        for Listening { request, .. } in &listening {
            request.finish(&ended(request));
        }
    }

    fn tell(&self, route: &Route, method: &str, params: &impl Serialize) {
        let encoding = self.encoding();
        let write = |out: &mut Vec<u8>| {
            write::notification(out, encoding, method, params)
                .expect("texts and flags can be encoded");
        };
        self.send(route, 0, || true, write);
    }
}

fn ended(request: &Context) -> Outcome {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ended {
        result_type: &'static str,
        #[serde(rename = "_meta")]
        meta: mcp_flow_proto::model::Meta,
    }
    let meta = subscription_meta(request.id());
    request.reply(&Ended { result_type: "complete", meta })
}

/// How long changes are gathered before anyone is told of them.
const BURST: Duration = Duration::from_millis(50);
