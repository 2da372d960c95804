//! Change notifications to the client, one for a burst of changes (C-34).
//!
//! Owns what a client has subscribed to, and what it has not been told yet. Detecting changes is the matter
//! of the registries and resource providers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use mcp_flow_proto::error::TOO_MANY_SUBSCRIPTIONS;
use mcp_flow_proto::model::{
    DetailedTask, Meta, SubscriptionFilter, SubscriptionParams, Topics, UpdatedParams,
    subscription_meta,
};
use mcp_flow_proto::{RpcError, method};
use serde::Serialize;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::call::Call;
use super::calls::Ticket;
use super::dispatch::shutting_down;
use super::{ConnectionInner, Route};
use crate::context::Context;
use crate::handler::Outcome;
use crate::permissions::PermissionKind;
use crate::resource::subscribers::Subscription;
use crate::task::TaskWatch;

/// The subscriptions of one connection, and the notifications due.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    /// The `subscriptions/listen` requests of a stateless client. A handshake client is notified of
    /// list changes without one.
    listening: Vec<Listening>,
    /// Set once the connection is registered with the server.
    registered: bool,
    /// The resources a handshake client is subscribed to.
    resources: Resources,
    changed: Topics,
    /// Changed resources; bounded by those subscribed to.
    updated: HashSet<Arc<str>>,
    /// The time to send notifications; changes are collected until then.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Listening {
    call: Arc<Call>,
    ticket: Ticket,
    topics: Topics,
    resources: Resources,
    /// Watches of tasks, which end with the subscription.
    tasks: Vec<Watching>,
}

/// Forwards the changes of one task, until dropped.
#[derive(Debug)]
struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The parts of a subscription that are looked up before it begins.
#[derive(Default)]
struct LookedUp {
    resources: Resources,
    /// Watched tasks by id; none if the client did not mention tasks.
    tasks: Option<Vec<(String, Box<dyn TaskWatch>)>>,
}

impl LookedUp {
    fn count(&self) -> usize {
        self.resources.len() + self.tasks.as_ref().map_or(0, Vec::len)
    }
}

type Resources = HashMap<Arc<str>, Subscription>;

impl Subscriptions {
    /// The time to send notifications, if any are due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes out everything but the registration, which lasts as long as the connection.
    pub(super) fn take(&mut self) -> Self {
        let registered = self.registered;
        std::mem::replace(self, Self { registered, ..Self::default() })
    }

    /// Removes listeners that have stopped.
    fn prune(&mut self) {
        self.listening.retain(|listening| !listening.call.is_answered());
    }

    /// The number of resources and tasks subscribed to.
    fn count(&self) -> usize {
        let count = |listening: &Listening| listening.resources.len() + listening.tasks.len();
        let listening = self.listening.iter().map(count);
        self.resources.len() + listening.sum::<usize>()
    }
}

/// Registers the connection for change announcements of the server. Most connections of stateless
/// requests end without.
pub(crate) fn register(connection: &Arc<ConnectionInner>) {
    if !std::mem::replace(&mut connection.state().subscriptions.registered, true) {
        connection.server.connections().add(connection);
    }
}

/// Removes the connection from the change announcements of the server.
pub(super) fn unregister(connection: &Arc<ConnectionInner>) {
    if connection.state().subscriptions.registered {
        connection.server.connections().remove(connection);
    }
}

/// Keeps a `subscriptions/listen` request open, and acknowledges it.
///
/// It holds no permit: it costs nothing while nothing changes.
pub(super) fn listen(call: &Arc<Call>, filter: SubscriptionFilter) {
    let connection = &call.connection;
    register(connection);
    let mut state = connection.state();
    if state.lifecycle.is_ending() {
        drop(state);
        return call.complete(&Err(shutting_down()));
    }
    let ticket = state.calls.run(call.clone());
    drop(state);
    let SubscriptionFilter { topics, resources, tasks } = filter;
    let count = resources.len() + tasks.as_ref().map_or(0, Vec::len);
    if count == 0 {
        let tasks = tasks.map(|_| Vec::new());
        return begin_listening(
            call,
            ticket,
            topics,
            Ok(LookedUp { tasks, ..LookedUp::default() }),
        );
    }
    // Checked before the lookups, and again when listening begins.
    let within_limit = check_limit(connection, &connection.state().subscriptions, count);
    if let Err(error) = within_limit {
        return begin_listening(call, ticket, topics, Err(error));
    }
    let listener = call.clone();
    let task = connection.tasks.spawn(async move {
        let context = Context::new(listener.clone());
        let looking = look_up(context, resources, tasks);
        let found = AssertUnwindSafe(looking).catch_unwind().await;
        let found = found.ok().flatten().ok_or_else(RpcError::internal);
        begin_listening(&listener, ticket, topics, found);
    });
    connection.state().calls.set_task(&call.id, ticket, task.abort_handle());
}

/// Looks up resources and tasks. Those that the caller cannot see are left out; none if a lookup
/// panicked.
async fn look_up(
    context: Context,
    resources: Vec<String>,
    tasks: Option<Vec<String>>,
) -> Option<LookedUp> {
    let mut found = LookedUp::default();
    if let Some((ids, source)) = tasks.zip(context.server().tasks().source.clone()) {
        let mut watched = Vec::new();
        for id in ids.into_iter().collect::<BTreeSet<_>>() {
            if let Some(watch) = source.watch(&context, &id).await {
                watched.push((id, watch));
            }
        }
        found.tasks = Some(watched);
    }
    if !resources.is_empty() {
        if let Some(known) = context.server().pending_definitions(None) {
            known.await;
        }
        let subscribing = tokio::task::spawn_blocking(move || {
            let catalog = context.server().catalog();
            let known = |uri: &String| catalog.subscribe(&context, uri).ok();
            resources.iter().filter_map(known).map(|one| (one.uri().clone(), one)).collect()
        });
        found.resources = subscribing.await.ok()?;
    }
    Some(found)
}

/// Acknowledges what is listened for, and notifies of it from now on.
fn begin_listening(
    call: &Arc<Call>,
    ticket: Ticket,
    topics: Topics,
    found: Result<LookedUp, RpcError>,
) {
    let connection = &call.connection;
    let mut state = connection.state();
    state.subscriptions.prune();
    let most = connection.limits.subscriptions;
    let is_full = state.subscriptions.listening.len() >= most;
    let found = found.and_then(|found| {
        if is_full {
            let details = format!("This connection has {most} subscriptions; cancel one first.");
            return Err(RpcError::new(TOO_MANY_SUBSCRIPTIONS).details(details));
        }
        check_limit(connection, &state.subscriptions, found.count()).map(|()| found)
    });
    let LookedUp { resources, tasks } = match found {
        Ok(found) if state.calls.has(&call.id, ticket) => found,
        // Cancelled before it began; the subscriptions are dropped without the lock.
        Ok(_unwanted) => return drop(state),
        Err(error) => {
            state.calls.close(&call.id, ticket);
            drop(state);
            return call.complete(&Err(error));
        }
    };
    // All under one lock, so that no notification precedes the acknowledgement.
    let mut uris: Vec<_> = resources.keys().map(ToString::to_string).collect();
    uris.sort_unstable();
    let ids = |tasks: &Vec<(String, _)>| tasks.iter().map(|(id, _)| id.clone()).collect();
    let acknowledged = SubscriptionParams {
        meta: Some(subscription_meta(&call.id)),
        notifications: Some(SubscriptionFilter {
            topics,
            resources: uris,
            tasks: tasks.as_ref().map(ids),
        }),
    };
    notify(connection, &call.route, method::SUBSCRIPTIONS_ACKNOWLEDGED, &acknowledged);
    let tasks = tasks.into_iter().flatten();
    let tasks = tasks.map(|(_, watch)| {
        let forwarding = connection.tasks.spawn(forward_task(call.clone(), watch));
        Watching(forwarding.abort_handle())
    });
    let tasks = tasks.collect();
    let call = call.clone();
    state.subscriptions.listening.push(Listening { call, ticket, topics, resources, tasks });
}

/// Notifies of every change of a task's status, until the task or the subscription ends.
async fn forward_task(call: Arc<Call>, mut watch: Box<dyn TaskWatch>) {
    #[derive(Serialize)]
    struct TaskNotification {
        #[serde(flatten)]
        task: DetailedTask,
        #[serde(rename = "_meta")]
        meta: Meta,
    }
    let connection = &call.connection;
    while let Some(task) = watch.next().await {
        // A client that does not read is notified later.
        while connection.output.is_congested() && !call.is_answered() {
            tokio::time::sleep(BURST).await;
        }
        // Under the lock, so that no notification follows the end of the subscription.
        let state = connection.state();
        if call.is_answered() || state.lifecycle.is_ending() {
            return;
        }
        let notification = TaskNotification { task, meta: subscription_meta(&call.id) };
        let sent = connection.output.notify(&call.route, method::TASKS, &notification);
        drop(state);
        if sent.is_err() {
            tracing::error!("encoding a task failed");
        }
        connection.output.wake();
    }
}

/// Subscribes a handshake client to a resource.
pub(crate) fn subscribe(
    connection: &ConnectionInner,
    subscription: Subscription,
) -> Result<(), RpcError> {
    let mut state = connection.state();
    let is_known = state.subscriptions.resources.contains_key(subscription.uri());
    let within_limit = check_limit(connection, &state.subscriptions, usize::from(!is_known));
    // Dropped after the lock is released: one too many, one too late, or the previous one.
    let unwanted = if within_limit.is_err() || state.lifecycle.is_ending() {
        Some(subscription)
    } else {
        state.subscriptions.resources.insert(subscription.uri().clone(), subscription)
    };
    drop(state);
    drop(unwanted);
    within_limit
}

/// Unsubscribes a handshake client from a resource.
pub(crate) fn unsubscribe(connection: &ConnectionInner, uri: &str) {
    let unwanted = connection.state().subscriptions.resources.remove(uri);
    drop(unwanted);
}

/// Checks that this many more resources may be subscribed to.
fn check_limit(
    connection: &ConnectionInner,
    subscriptions: &Subscriptions,
    more: usize,
) -> Result<(), RpcError> {
    let most = connection.limits.resource_subscriptions;
    if more == 0 || subscriptions.count() + more <= most {
        return Ok(());
    }
    let details = format!("This connection may be subscribed to {most} resources and tasks.");
    Err(RpcError::new(TOO_MANY_SUBSCRIPTIONS).details(details).with("limit", most))
}

/// Records that a resource has changed to which this connection is subscribed.
pub(crate) fn record_update(connection: &ConnectionInner, uri: &Arc<str>) {
    let mut state = connection.state();
    state.subscriptions.updated.insert(uri.clone());
    state.subscriptions.due.get_or_insert_with(|| Instant::now() + BURST);
    drop(state);
    connection.output.wake();
}

/// Records that lists have changed; the client is notified a little later, once for all changes
/// until then.
pub(crate) fn record_change(connection: &ConnectionInner, topics: Topics) {
    let mut state = connection.state();
    state.subscriptions.changed = state.subscriptions.changed.union(topics);
    state.subscriptions.due.get_or_insert_with(|| Instant::now() + BURST);
    drop(state);
    connection.output.wake();
}

/// Sends the change notifications, if they are due.
pub(super) fn send_notifications(connection: &ConnectionInner) {
    let mut state = connection.state();
    if state.subscriptions.due.is_none_or(|due| Instant::now() < due) {
        return;
    }
    if connection.output.is_congested() {
        // A client that does not read is notified later.
        state.subscriptions.due = Some(Instant::now() + BURST);
        return;
    }
    state.subscriptions.due = None;
    let changed = std::mem::take(&mut state.subscriptions.changed);
    let updated = std::mem::take(&mut state.subscriptions.updated);
    if state.lifecycle.is_ending() {
        return;
    }
    let methods = |topics: Topics| {
        let topics = topics.intersection(changed);
        [
            (topics.tools_list_changed, method::TOOLS_LIST_CHANGED),
            (topics.prompts_list_changed, method::PROMPTS_LIST_CHANGED),
            (topics.resources_list_changed, method::RESOURCES_LIST_CHANGED),
        ]
        .into_iter()
        .filter_map(|(changed, method)| changed.then_some(method))
    };
    if state.lifecycle.is_ready() {
        for method in methods(ALL) {
            let params = SubscriptionParams { meta: None, notifications: None };
            notify(connection, &Route::default(), method, &params);
        }
    }
    state.subscriptions.prune();
    for listening in &state.subscriptions.listening {
        for method in methods(listening.topics) {
            let meta = Some(subscription_meta(&listening.call.id));
            let params = SubscriptionParams { meta, notifications: None };
            notify(connection, &listening.call.route, method, &params);
        }
    }
    for uri in updated {
        notify_update(connection, &state.subscriptions, &uri);
    }
}

/// Notifies subscribers that a resource has changed, if they still may read it.
fn notify_update(connection: &ConnectionInner, subscriptions: &Subscriptions, uri: &str) {
    if !connection.may(PermissionKind::Resource, uri) {
        return;
    }
    if subscriptions.resources.contains_key(uri) {
        let params = UpdatedParams { uri, meta: None };
        notify(connection, &Route::default(), method::RESOURCES_UPDATED, &params);
    }
    for listening in &subscriptions.listening {
        if listening.resources.contains_key(uri) {
            let meta = Some(subscription_meta(&listening.call.id));
            let params = UpdatedParams { uri, meta };
            notify(connection, &listening.call.route, method::RESOURCES_UPDATED, &params);
        }
    }
}

/// Ends all subscriptions with a reply, as a server should when it closes.
pub(super) fn end_all(connection: &ConnectionInner) {
    let mut state = connection.state();
    let listening = std::mem::take(&mut state.subscriptions.listening);
    for Listening { call, ticket, .. } in &listening {
        state.calls.close(&call.id, *ticket);
    }
    drop(state);
    for Listening { call, .. } in &listening {
        call.complete(&ended(call));
    }
}

fn notify(connection: &ConnectionInner, route: &Route, method: &str, params: &impl Serialize) {
    connection.output.notify(route, method, params).expect("texts and flags can be encoded");
}

fn ended(call: &Call) -> Outcome {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ended {
        result_type: &'static str,
        #[serde(rename = "_meta")]
        meta: mcp_flow_proto::model::Meta,
    }
    let meta = subscription_meta(&call.id);
    call.encode(&Ended { result_type: "complete", meta })
}

/// The topics of a handshake client.
const ALL: Topics =
    Topics { tools_list_changed: true, prompts_list_changed: true, resources_list_changed: true };

/// Time for which changes are collected before the client is notified (C-34).
const BURST: Duration = Duration::from_millis(100);
