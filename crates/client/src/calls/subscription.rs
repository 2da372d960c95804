//! Subscriptions to changes of lists and resources.
//!
//! Under 2026-07-28 a subscription is one long-lived request, `subscriptions/listen`; in earlier
//! revisions each resource is subscribed to and list changes arrive unsolicited. Both are one
//! stream here. A task renews it on each new connection until it is dropped.

use std::convert::Infallible as Never;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::Stream;
use mcp_flow_proto::model::{DetailedTask, SubscriptionFilter};
use mcp_flow_proto::{Params, RequestId, method};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::client::{Client, ClientInner};
use crate::connection::pending::RequestFailure;
use crate::connection::{Connection, RequestError, RequestExtras};
use crate::error::Error;
use crate::event::ClientEvent;
use crate::transport::TransportError;

/// Selects the changes to listen for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeFilter {
    filter: SubscriptionFilter,
}

impl ChangeFilter {
    /// Creates a filter that selects nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds changes of the list of tools.
    #[must_use]
    pub fn tools(mut self) -> Self {
        self.filter.topics.tools_list_changed = true;
        self
    }

    /// Adds changes of the list of prompts.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.filter.topics.prompts_list_changed = true;
        self
    }

    /// Adds changes of the list of resources.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.filter.topics.resources_list_changed = true;
        self
    }

    /// Adds updates of one resource.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.filter.resources.push(uri.into());
        self
    }

    /// Adds the status of a task, under 2026-07-28. A server does not announce tasks that it does not
    /// know: [`Client::get_task`] shows whether it does.
    #[must_use]
    pub fn task(mut self, id: impl Into<String>) -> Self {
        self.filter.tasks.get_or_insert_default().push(id.into());
        self
    }

    fn includes(&self, event: &ClientEvent) -> Option<ServerChange> {
        let topics = self.filter.topics;
        match event {
            ClientEvent::ToolsChanged if topics.tools_list_changed => Some(ServerChange::Tools),
            ClientEvent::PromptsChanged if topics.prompts_list_changed => {
                Some(ServerChange::Prompts)
            }
            ClientEvent::ResourcesChanged if topics.resources_list_changed => {
                Some(ServerChange::Resources)
            }
            ClientEvent::ResourceUpdated { uri } if self.covers(uri) => {
                Some(ServerChange::Resource(uri.clone()))
            }
            ClientEvent::TaskChanged(task) if self.has_task(&task.task_id) => {
                Some(ServerChange::Task(task.clone()))
            }
            _ => None,
        }
    }

    fn has_task(&self, id: &str) -> bool {
        self.filter.tasks.iter().flatten().any(|task| task == id)
    }

    /// Returns whether a URI is a subscribed resource or beneath one.
    fn covers(&self, uri: &str) -> bool {
        self.filter.resources.iter().any(|subscribed| {
            uri.strip_prefix(subscribed.as_str()).is_some_and(|rest| {
                rest.is_empty() || subscribed.ends_with('/') || rest.starts_with('/')
            })
        })
    }
}

/// A change that a subscription reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources.
    Resources,
    /// This resource; read it again.
    Resource(String),
    /// The status of this task. Its progress is not announced.
    Task(Box<DetailedTask>),
    /// The subscription was renewed after a reconnection; changes in between were missed.
    Reconnected,
}

/// Stream of changes. Dropping it ends the subscription at the server.
#[derive(Debug)]
#[must_use = "dropping it ends the subscription"]
pub struct ChangeStream {
    changes: mpsc::Receiver<Result<ServerChange, Error>>,
    keeper: JoinHandle<()>,
    _entry: Arc<Entry>,
}

impl Stream for ChangeStream {
    type Item = Result<ServerChange, Error>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.poll_recv(task)
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Client {
    /// Subscribes to changes. Returns the stream once the server has acknowledged it.
    ///
    /// The stream survives reconnections, which it reports as [`ServerChange::Reconnected`]; it
    /// ends with an error when reconnecting fails.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::with(|builder| builder.resources(mcp_flow_server::Resource::builder("x:/a").text("hi").unwrap())).server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// use futures_util::StreamExt;
    /// use mcp_flow_client::{ServerChange, ChangeFilter};
    ///
    /// let mut changes = client.listen(ChangeFilter::new().resource("x:/a")).await?;
    /// server.resource_changed("x:/a");
    /// let change = changes.next().await.expect("a subscription does not end")?;
    /// assert_eq!(change, ServerChange::Resource("x:/a".into()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, filter: ChangeFilter) -> Result<ChangeStream, Error> {
        let (sender, changes) = mpsc::channel(MAX_CHANGES);
        let entry = Arc::new(Entry {
            filter,
            request: Mutex::new(None),
            sender,
            agreed: watch::Sender::new(false),
        });
        self.inner.subscriptions.add(&entry);
        let mut agreed = entry.agreed.subscribe();
        let (failed, failure) = tokio::sync::oneshot::channel();
        let keeper = tokio::spawn(keep(self.clone(), entry.clone(), failed));
        let subscription = ChangeStream { changes, keeper, _entry: entry };
        let limit = self.inner.options.request_timeout;
        tokio::select! {
            biased;
            Ok(error) = failure => Err(error),
            Ok(_) = agreed.wait_for(|agreed| *agreed) => Ok(subscription),
            () = tokio::time::sleep(limit) => {
                Err(Error::Timeout { what: method::SUBSCRIPTIONS_LISTEN.to_owned(), limit })
            }
        }
    }
}

/// Renews a subscription on each new connection.
async fn keep(client: Client, entry: Arc<Entry>, failed: tokio::sync::oneshot::Sender<Error>) {
    let mut failed = Some(failed);
    let backoff = client.inner.options.backoff;
    let mut attempt = 0;
    loop {
        let begun = Instant::now();
        let kept = match client.inner.connection().await {
            Ok(connection) => {
                let Err(ended) = hold(&client, &connection, &entry).await;
                match ended {
                    // The connection is lost; the subscription may succeed on the next one.
                    Ended::Lost(_)
                        if client.inner.connector().reconnects() && attempt < backoff.attempts =>
                    {
                        None
                    }
                    Ended::Lost(source) => {
                        let method = method::SUBSCRIPTIONS_LISTEN.to_owned();
                        Some(Error::Lost { method, source })
                    }
                    Ended::Failed(error) => Some(error),
                }
            }
            Err(error) => Some(error),
        };
        if let Some(error) = kept {
            match failed.take() {
                Some(failed) if !*entry.agreed.borrow() => drop(failed.send(error)),
                _ => drop(entry.sender.send(Err(error)).await),
            }
            return;
        }
        // A subscription that lasted resets the backoff.
        attempt = if begun.elapsed() > backoff.max { 0 } else { attempt + 1 };
        tokio::time::sleep(backoff.delay(attempt.saturating_sub(1), fastrand::f64())).await;
    }
}

enum Ended {
    Lost(TransportError),
    Failed(Error),
}

impl From<RequestFailure> for Ended {
    fn from(failed: RequestFailure) -> Self {
        match failed {
            RequestFailure::Server(error) => Self::Failed(error.into()),
            RequestFailure::Transport(error) => Self::Lost(error),
        }
    }
}

impl From<RequestError> for Ended {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Unsent(error) => Self::Lost(error),
            RequestError::Usage(what) => Self::Failed(Error::Usage(what)),
        }
    }
}

/// Subscribes on one connection, and returns when the subscription has ended.
async fn hold(
    client: &Client,
    connection: &Arc<Connection>,
    entry: &Arc<Entry>,
) -> Result<Never, Ended> {
    if connection.revision().is_stateless() {
        listen(connection, entry).await
    } else {
        subscribe(client, connection, entry).await
    }
}

async fn listen(connection: &Arc<Connection>, entry: &Arc<Entry>) -> Result<Never, Ended> {
    let params = json!({"notifications": entry.filter.filter});
    let extras = RequestExtras::default();
    // The acknowledgement may arrive before this returns, so the id is set under the lock.
    let mut exchange = {
        let mut request = entry.request.lock();
        let exchange = connection.request(method::SUBSCRIPTIONS_LISTEN.into(), &params, &extras)?;
        *request = Some(exchange.id);
        exchange
    };
    match exchange.reply().await {
        // The server ended the subscription, as it does when it shuts down.
        Ok(_) => Err(Ended::Lost(TransportError::Lost("ended by the server".to_owned()))),
        Err(failed) => Err(failed.into()),
    }
}

async fn subscribe(
    client: &Client,
    connection: &Arc<Connection>,
    entry: &Arc<Entry>,
) -> Result<Never, Ended> {
    if entry.filter.filter.tasks.is_some() {
        let what = "tasks are announced by servers of revision 2026-07-28 only";
        return Err(Ended::Failed(Error::Usage(what.to_owned())));
    }
    let limit = client.inner.options.request_timeout;
    for uri in &entry.filter.filter.resources {
        let params = json!({"uri": uri});
        let mut exchange = connection.request(
            method::RESOURCES_SUBSCRIBE.into(),
            &params,
            &RequestExtras::default(),
        )?;
        match tokio::time::timeout(limit, exchange.reply()).await {
            Ok(reply) => drop(reply?),
            Err(_) => {
                let what = method::RESOURCES_SUBSCRIBE.to_owned();
                return Err(Ended::Failed(Error::Timeout { what, limit }));
            }
        }
    }
    let _unsubscribe = Unsubscribe { inner: &client.inner, connection, entry };
    entry.agree();
    connection.wait_closed().await;
    let why = connection.why_closed();
    Err(Ended::Lost(why.unwrap_or_else(|| TransportError::Lost("closed".to_owned()))))
}

/// Unsubscribes from resources on drop, unless another subscription needs them.
struct Unsubscribe<'a> {
    inner: &'a ClientInner,
    connection: &'a Arc<Connection>,
    entry: &'a Arc<Entry>,
}

impl Drop for Unsubscribe<'_> {
    fn drop(&mut self) {
        if self.connection.is_closed() {
            return;
        }
        for uri in &self.entry.filter.filter.resources {
            if self.inner.subscriptions.is_wanted(uri, self.entry) {
                continue;
            }
            let params = json!({"uri": uri});
            let asked = self.connection.request(
                method::RESOURCES_UNSUBSCRIBE.into(),
                &params,
                &RequestExtras::default(),
            );
            // Dropping the exchange must not cancel the request.
            if let Ok(mut exchange) = asked {
                exchange.keeps_on_drop = true;
            }
        }
    }
}

/// Active subscriptions of a client.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    entries: Mutex<Vec<Weak<Entry>>>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    filter: ChangeFilter,
    /// Id of the pending `subscriptions/listen`, under 2026-07-28.
    request: Mutex<Option<i64>>,
    sender: mpsc::Sender<Result<ServerChange, Error>>,
    agreed: watch::Sender<bool>,
}

impl Entry {
    /// Records the acknowledgement; a second one reports the reconnection.
    fn agree(&self) {
        if self.agreed.send_replace(true) {
            let _ = self.sender.try_send(Ok(ServerChange::Reconnected));
        }
    }
}

impl Subscriptions {
    fn add(&self, entry: &Arc<Entry>) {
        let mut entries = self.lock();
        entries.retain(|entry| entry.strong_count() > 0);
        entries.push(Arc::downgrade(entry));
    }

    fn live(&self) -> Vec<Arc<Entry>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    fn is_wanted(&self, uri: &str, by_others_than: &Arc<Entry>) -> bool {
        self.live().iter().any(|entry| {
            !Arc::ptr_eq(entry, by_others_than)
                && !entry.sender.is_closed()
                && entry.filter.filter.resources.iter().any(|wanted| wanted == uri)
        })
    }

    /// Handles `notifications/subscriptions/acknowledged`.
    pub(crate) fn acknowledged(&self, params: Params<'_>) {
        if let Some(id) = subscription_id(params) {
            for entry in self.live() {
                let is_it = *entry.request.lock() == Some(id);
                if is_it {
                    entry.agree();
                }
            }
        }
    }

    /// Delivers a change to the subscriptions that select it.
    pub(crate) fn deliver(&self, event: &ClientEvent, params: Params<'_>) {
        let entries = self.live();
        if entries.is_empty() {
            return;
        }
        let id = subscription_id(params);
        for entry in entries {
            let own = *entry.request.lock();
            if id.is_some() && own.is_some() && id != own {
                continue;
            }
            if let Some(change) = entry.filter.includes(event) {
                // If the buffer is full, the changes in it already make the caller read again.
                let _ = entry.sender.try_send(Ok(change));
            }
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Vec<Weak<Entry>>> {
        self.entries.lock()
    }
}

fn subscription_id(params: Params<'_>) -> Option<i64> {
    let [meta] = params.members(["_meta"]).ok()?;
    let meta: Value = meta?.decode().ok()?;
    let id = meta.get("io.modelcontextprotocol/subscriptionId")?.clone();
    match serde_json::from_value(id).ok()? {
        RequestId::Integer(id) => Some(id),
        _ => None,
    }
}

/// Maximum number of buffered changes.
const MAX_CHANGES: usize = 64;
