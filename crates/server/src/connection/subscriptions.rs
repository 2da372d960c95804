//! Telling the client that something has changed, once for a burst of changes.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_flow_proto::error::TOO_MANY_SUBSCRIPTIONS;
use mcp_flow_proto::model::{
    SubscriptionFilter, SubscriptionParams, Topics, UpdatedParams, subscription_meta,
};
use mcp_flow_proto::{RpcError, method, write};
use serde::Serialize;
use tokio::time::Instant;

use super::calls::Ticket;
use super::dispatch::shutting_down;
use super::{Route, Shared};
use crate::context::Context;
use crate::handler::Outcome;
use crate::permissions::PermissionKind;
use crate::resource::subscribers::Subscription;

/// Who listens on one connection, and what they have not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The `subscriptions/listen` requests of a stateless client. One of a handshake revision is
    /// told without having asked.
    listening: Vec<Listening>,
    /// Whether the server knows that someone may want news here.
    joined: bool,
    /// What a client of a handshake revision has subscribed to.
    resources: Resources,
    news: Topics,
    /// Resources that have changed. There are no more than somebody here has subscribed to.
    updated: HashSet<Arc<str>>,
    /// When the news is told; it may grow until then.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Listening {
    request: Context,
    ticket: Ticket,
    topics: Topics,
    resources: Resources,
}

type Resources = HashMap<Arc<str>, Subscription>;

impl Subscriptions {
    /// When there is something to tell.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes out everything. That the server knows of the connection stays true until it is gone.
    pub(super) fn take(&mut self) -> Self {
        let joined = self.joined;
        std::mem::replace(self, Self { joined, ..Self::default() })
    }

    /// Forgets those who have stopped listening.
    fn prune(&mut self) {
        self.listening.retain(|listening| !listening.request.is_answered());
    }

    /// How many resources are subscribed to.
    fn count(&self) -> usize {
        let listening = self.listening.iter().map(|listening| listening.resources.len());
        self.resources.len() + listening.sum::<usize>()
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
    pub(super) fn listen(self: &Arc<Self>, request: &Context, filter: SubscriptionFilter) {
        self.join_listeners();
        let mut state = self.state();
        if state.lifecycle.is_ending() {
            drop(state);
            return request.finish(&Err(shutting_down()));
        }
        let ticket = state.calls.run(request.clone());
        drop(state);
        let SubscriptionFilter { topics, resources } = filter;
        if resources.is_empty() {
            return self.begin_listening(request, ticket, topics, Ok(Resources::new()));
        }
        // Looked at before there is any work, and again when it begins.
        let has_room = self.check_room(&self.state().subscriptions, resources.len());
        if let Err(error) = has_room {
            return self.begin_listening(request, ticket, topics, Err(error));
        }
        let (shared, context) = (self.clone(), request.clone());
        let task = self.tasks.spawn(async move {
            let asked = context.clone();
            let subscribing = tokio::task::spawn_blocking(move || {
                let catalog = asked.server().catalog();
                let known = |uri: &String| catalog.subscribe(&asked, uri).ok();
                resources.iter().filter_map(known).map(|one| (one.uri().clone(), one)).collect()
            });
            let subscribed = AssertUnwindSafe(subscribing).catch_unwind().await;
            let subscribed = subscribed.ok().and_then(Result::ok).ok_or_else(RpcError::internal);
            shared.begin_listening(&context, ticket, topics, subscribed);
        });
        self.state().calls.set_task(request.id(), ticket, task.abort_handle());
    }

    /// Says what is listened for, and tells of it from now on.
    fn begin_listening(
        &self,
        request: &Context,
        ticket: Ticket,
        topics: Topics,
        resources: Result<Resources, RpcError>,
    ) {
        let mut state = self.state();
        state.subscriptions.prune();
        let most = self.limits.subscriptions;
        let is_full = state.subscriptions.listening.len() >= most;
        let resources = resources.and_then(|resources| {
            if is_full {
                let details =
                    format!("This connection has {most} subscriptions; cancel one first.");
                return Err(RpcError::new(TOO_MANY_SUBSCRIPTIONS).details(details));
            }
            self.check_room(&state.subscriptions, resources.len()).map(|()| resources)
        });
        let resources = match resources {
            Ok(resources) if state.calls.has(request.id(), ticket) => resources,
            // Cancelled before it began; what was subscribed to is dropped without the lock.
            Ok(_unwanted) => return drop(state),
            Err(error) => {
                state.calls.close(request.id(), ticket);
                drop(state);
                return request.finish(&Err(error));
            }
        };
        // All under one lock, so that nothing is told before the acknowledgement.
        let mut uris: Vec<_> = resources.keys().map(ToString::to_string).collect();
        uris.sort_unstable();
        let begun = SubscriptionParams {
            meta: Some(subscription_meta(request.id())),
            notifications: Some(SubscriptionFilter { topics, resources: uris }),
        };
        self.tell(request.route(), method::SUBSCRIPTIONS_ACKNOWLEDGED, &begun);
        let request = request.clone();
        state.subscriptions.listening.push(Listening { request, ticket, topics, resources });
    }

    /// Tells the client of a handshake revision of changes of a resource from now on.
    pub(crate) fn subscribe(&self, subscription: Subscription) -> Result<(), RpcError> {
        let mut state = self.state();
        let is_known = state.subscriptions.resources.contains_key(subscription.uri());
        let has_room = self.check_room(&state.subscriptions, usize::from(!is_known));
        // What is not wanted is dropped when the lock is released: one too many, one that comes too
        // late, or the one that was there before.
        let unwanted = if has_room.is_err() || state.lifecycle.is_ending() {
            Some(subscription)
        } else {
            state.subscriptions.resources.insert(subscription.uri().clone(), subscription)
        };
        drop(state);
        drop(unwanted);
        has_room
    }

    /// Does not tell the client of a handshake revision of a resource any more.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let unwanted = self.state().subscriptions.resources.remove(uri);
        drop(unwanted);
    }

    /// Whether so many more resources may be subscribed to.
    fn check_room(&self, subscriptions: &Subscriptions, more: usize) -> Result<(), RpcError> {
        let most = self.limits.resource_subscriptions;
        if more == 0 || subscriptions.count() + more <= most {
            return Ok(());
        }
        let details = format!("This connection may be subscribed to {most} resources.");
        Err(RpcError::new(TOO_MANY_SUBSCRIPTIONS).details(details).with("limit", most))
    }

    /// Notes that a resource has changed that somebody here has subscribed to.
    pub(crate) fn note_update(&self, uri: &Arc<str>) {
        let mut state = self.state();
        state.subscriptions.updated.insert(uri.clone());
        state.subscriptions.due.get_or_insert_with(|| Instant::now() + BURST);
        drop(state);
        self.wake.notify_one();
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
        let updated = std::mem::take(&mut state.subscriptions.updated);
        if state.lifecycle.is_ending() {
            return;
        }
        let changed = |topics: Topics| {
            let topics = topics.intersection(news);
            [
                (topics.tools_list_changed, method::TOOLS_LIST_CHANGED),
                (topics.prompts_list_changed, method::PROMPTS_LIST_CHANGED),
                (topics.resources_list_changed, method::RESOURCES_LIST_CHANGED),
            ]
            .into_iter()
            .filter_map(|(changed, method)| changed.then_some(method))
        };
        if state.lifecycle.is_ready() {
            for method in changed(ALL) {
                let params = SubscriptionParams { meta: None, notifications: None };
                self.tell(&Route::default(), method, &params);
            }
        }
        state.subscriptions.prune();
        for listening in &state.subscriptions.listening {
            for method in changed(listening.topics) {
                let meta = Some(subscription_meta(listening.request.id()));
                let params = SubscriptionParams { meta, notifications: None };
                self.tell(listening.request.route(), method, &params);
            }
        }
        for uri in updated {
            self.tell_update(&state.subscriptions, &uri);
        }
    }

    /// Tells those who have subscribed to a resource that it has changed, if they still may.
    fn tell_update(&self, subscriptions: &Subscriptions, uri: &str) {
        if !self.may(PermissionKind::Resource, uri) {
            return;
        }
        if subscriptions.resources.contains_key(uri) {
            let params = UpdatedParams { uri, meta: None };
            self.tell(&Route::default(), method::RESOURCES_UPDATED, &params);
        }
        for listening in &subscriptions.listening {
            if listening.resources.contains_key(uri) {
                let meta = Some(subscription_meta(listening.request.id()));
                let params = UpdatedParams { uri, meta };
                self.tell(listening.request.route(), method::RESOURCES_UPDATED, &params);
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

/// What a client of a handshake revision is told of.
const ALL: Topics =
    Topics { tools_list_changed: true, prompts_list_changed: true, resources_list_changed: true };

/// How long changes are gathered before anyone is told of them (C-34).
const BURST: Duration = Duration::from_millis(100);
