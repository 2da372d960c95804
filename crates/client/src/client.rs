//! The client and its builder.
//!
//! A [`Client`] is a handle: it finds the state of the connection, and offers the notifications and events
//! that concern all calls. The calls themselves are in `calls`, reconnecting and the handshake in
//! `connection`, transports in crates of their own.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::Stream;
use futures_util::stream;
use mcp_flow_proto::model::{ClientCapabilities, LogLevel, TASKS_EXTENSION};
use mcp_flow_proto::{Notification, Raw, method};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};

use crate::calls::listed_tools::ListedTools;
use crate::calls::request::Request;
use crate::calls::result_cache::ResultCache;
use crate::calls::subscription::Subscriptions;
use crate::connection::Connection;
use crate::connection::connect::State;
use crate::connection::handshake::ServerInfo;
use crate::error::Error;
use crate::event::ClientEvent;
use crate::host::{DenyAll, Host, ServerIdentity};
use crate::interaction::OpenSessions;
use crate::options::ClientOptions;
use crate::transport::{Connector, ContentStream, Transport, TransportError};

/// A client of one server. Cheap to clone; all clones share one connection and send requests
/// concurrently.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_client::Error> {
/// use mcp_flow_client::Client;
/// use serde_json::json;
///
/// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
/// # let connector = mcp_flow_stdio::client::in_process(&server);
/// let client = Client::builder().connect(connector).await?;
/// let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).await?;
/// assert_eq!(sum.text(), "5");
/// client.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

/// State shared by all clones of a client.
pub(crate) struct ClientInner {
    pub(crate) options: ClientOptions,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) connector: Mutex<Arc<dyn Connector>>,
    pub(crate) target: String,
    pub(crate) state: watch::Sender<State>,
    pub(crate) events: broadcast::Sender<ClientEvent>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) sessions: OpenSessions,
    pub(crate) tools: ListedTools,
    pub(crate) cache: ResultCache,
    pub(crate) log_level: Mutex<Option<LogLevel>>,
}

/// Builds a [`Client`].
#[derive(Clone)]
pub struct ClientBuilder {
    options: ClientOptions,
    host: Arc<dyn Host>,
}

impl Client {
    /// Creates a builder with default options and a host that denies everything.
    pub fn builder() -> ClientBuilder {
        ClientBuilder { options: ClientOptions::default(), host: Arc::new(DenyAll) }
    }

    /// The negotiated revision and the server's description of itself. Connects if needed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// assert_eq!(client.server().await?.implementation.name, "fixture");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn server(&self) -> Result<Arc<ServerInfo>, Error> {
        let connection = self.inner.connection().await?;
        connection.info().cloned().ok_or(Error::Closed)
    }

    /// Like [`server`](Self::server), without connecting; `None` if there is no connection.
    pub fn known_server(&self) -> Option<Arc<ServerInfo>> {
        self.inner.current().and_then(|connection| connection.info().cloned())
    }

    /// The server for display: a URL, a command.
    pub fn target(&self) -> &str {
        &self.inner.target
    }

    /// Sends any request and returns its raw result. `params` must be an object or null.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let result = client.request("tools/list", serde_json::json!({})).await?;
    /// assert!(result["tools"].is_array());
    /// # Ok(())
    /// # }
    /// ```
    pub fn request(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: Value,
    ) -> Request<Value, Value> {
        let mut params = params;
        let meta = match &mut params {
            Value::Object(members) => members.remove("_meta"),
            Value::Null => {
                params = json!({});
                None
            }
            _ => None,
        };
        let method = method.into();
        let subject = match &*method {
            method::TOOLS_CALL | method::PROMPTS_GET => params.get("name"),
            method::RESOURCES_READ => params.get("uri"),
            method::TASKS_GET | method::TASKS_UPDATE | method::TASKS_CANCEL => params.get("taskId"),
            _ => None,
        };
        let subject = subject.and_then(Value::as_str).map(str::to_owned);
        let mut request = Request::new(self, method, params, |raw: Raw<'_>| Ok(raw.decode()?));
        if let Some(subject) = subject {
            request = request.about(&subject);
        }
        match meta {
            Some(Value::Object(members)) => request.meta(members),
            _ => request,
        }
    }

    /// Sends any notification.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.notify("notifications/x", &serde_json::json!({"level": 7})).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn notify<P: Serialize + Sync>(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: &P,
    ) -> Result<(), Error> {
        self.inner.connection().await?.notify(method.into(), params);
        Ok(())
    }

    /// Pings the server, by `server/discover` under 2026-07-28, which has no ping.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.ping().timeout(std::time::Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ping(&self) -> Request<Map<String, Value>, ()> {
        Request::new(self, method::PING.into(), Map::new(), |_: Raw<'_>| Ok(())).repeatable()
    }

    /// Sends `notifications/roots/list_changed`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.roots_changed().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn roots_changed(&self) -> Result<(), Error> {
        self.notify("notifications/roots/list_changed", &json!({})).await
    }

    /// Stream of events from now on. A slow consumer misses the oldest.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// use futures_util::StreamExt;
    /// use mcp_flow_client::ClientEvent;
    /// use mcp_flow_client::model::LogLevel;
    ///
    /// let mut events = client.events();
    /// client.set_log_level(LogLevel::Error).await?;
    /// client.call_tool("report", serde_json::json!({})).await?;
    /// assert!(matches!(events.next().await, Some(ClientEvent::Log { level: LogLevel::Error, .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self) -> impl Stream<Item = ClientEvent> + Send + Unpin + use<> {
        let receiver = self.inner.events.subscribe();
        Box::pin(stream::unfold(receiver, |mut receiver| async move {
            loop {
                match receiver.recv().await {
                    Ok(event) => return Some((event, receiver)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        }))
    }

    /// Opens content that a result refers to: a `resource_link` to the server's own origin, or a
    /// `ref/stream`. The request timeout applies to each chunk.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_flow_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use serde_json::json;
    ///
    /// let call = client.call_tool("read_file", json!({"path": "film.mkv"})).raw().await?;
    /// let mut film = client.open_content(&call["content"][0]).await?.bytes;
    /// while let Some(piece) = film.try_next().await? {
    ///     eprintln!("{} bytes", piece.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open_content(&self, content: &Value) -> Result<ContentStream, Error> {
        let connection = self.inner.connection().await?;
        let transport = connection.transport().ok_or(Error::Closed)?;
        let Some(opening) = transport.open(content) else {
            let what = "cannot open the content that the result refers to: it is neither a stream \
                        of this connection nor a link to the server's own origin";
            return Err(Error::Usage(what.to_owned()));
        };
        let limit = self.inner.options.request_timeout;
        match tokio::time::timeout(limit, opening).await {
            Ok(opened) => match opened {
                Ok(opened) => Ok(opened.limited(limit)),
                Err(source) => Err(Error::Lost { method: "open".into(), source }),
            },
            Err(_) => Err(Error::Timeout { what: "opening a stream".to_owned(), limit }),
        }
    }

    /// Forgets all cached results, so that the next requests reach the server.
    pub fn clear_cache(&self) {
        self.inner.cache.clear();
        self.inner.tools.clear();
    }

    /// The transport of the connection, for downcasting.
    pub async fn transport(&self) -> Result<Arc<dyn Transport>, Error> {
        let connection = self.inner.connection().await?;
        connection.transport().cloned().ok_or(Error::Closed)
    }

    /// Closes the connection gracefully. All clones of the client fail from then on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// client.close().await;
    /// assert!(client.ping().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        let last = self.inner.state.send_replace(State::Closed);
        if let State::Up(connection) = last {
            if let Some(transport) = connection.transport() {
                transport.close().await;
            }
            connection.close(TransportError::Lost("the client was closed".to_owned()));
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("target", &self.inner.target).finish()
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientBuilder").field("options", &self.options).finish()
    }
}

impl ClientBuilder {
    /// Replaces the options.
    #[must_use]
    pub fn options(mut self, options: ClientOptions) -> Self {
        self.options = options;
        self
    }

    /// Changes the options.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use std::time::Duration;
    /// # use mcp_flow_client::Client;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// let client = Client::builder().with(|options| options.request_timeout = Duration::from_secs(5));
    /// client.connect(connector).await?.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ClientOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Declares that the client supports an extension of the protocol, with these settings.
    ///
    /// ```
    /// # use mcp_flow_client::Client;
    /// let apps = serde_json::json!({"mimeTypes": ["text/html;profile=mcp-app"]});
    /// let builder = Client::builder().extension("io.modelcontextprotocol/ui", apps);
    /// ```
    #[must_use]
    pub fn extension(mut self, name: impl Into<String>, settings: Value) -> Self {
        let settings = settings.as_object().cloned().unwrap_or_default();
        self.options.extensions = self.options.extensions.with(name, settings);
        self
    }

    /// Sets the host that answers the server's requests.
    #[must_use]
    pub fn host(mut self, host: impl Host) -> Self {
        self.host = Arc::new(host);
        self
    }

    /// Sets a shared host that answers the server's requests.
    #[must_use]
    pub fn shared_host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = host;
        self
    }

    /// Connects, and returns the client after the handshake.
    pub async fn connect(self, connector: impl Connector) -> Result<Client, Error> {
        self.connect_by(Arc::new(connector)).await
    }

    /// Connects with a shared connector.
    pub async fn connect_by(self, connector: Arc<dyn Connector>) -> Result<Client, Error> {
        let client = self.prepare(connector);
        client.inner.connection().await?;
        Ok(client)
    }

    /// Creates a client that connects when it is first used.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use std::sync::Arc;
    /// # use mcp_flow_client::Client;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// let client = Client::builder().prepare(Arc::new(connector));
    /// assert!(client.known_server().is_none(), "nothing was sent yet");
    /// client.ping().await?;
    /// assert!(client.known_server().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(self, connector: Arc<dyn Connector>) -> Client {
        let log_level = Mutex::new(self.options.log_level);
        Client {
            inner: Arc::new(ClientInner {
                target: connector.target().to_owned(),
                connector: Mutex::new(connector),
                host: self.host,
                state: watch::Sender::new(State::Never),
                events: broadcast::Sender::new(EVENTS),
                subscriptions: Subscriptions::default(),
                sessions: OpenSessions::default(),
                tools: ListedTools::default(),
                cache: ResultCache::default(),
                log_level,
                options: self.options,
            }),
        }
    }
}

impl ClientInner {
    /// The server, as described to the host.
    pub(crate) fn server_identity(&self, connection: &Connection) -> ServerIdentity {
        let name =
            connection.info().map(|info| info.implementation.name.clone()).unwrap_or_default();
        ServerIdentity { target: self.target.clone(), name, revision: connection.revision() }
    }

    /// Capabilities to declare: the host's, and inline delivery of interaction prompts.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        let host = self.host.capabilities();
        let mut extensions = host.extensions.clone();
        for (name, settings) in self.options.extensions.all().into_iter().flatten() {
            if extensions.get(name).is_none() {
                extensions =
                    extensions.with(name, settings.as_object().cloned().unwrap_or_default());
            }
        }
        ClientCapabilities { inline_interaction: true, extensions, ..host }
    }

    /// Forgets the tools, because they are listed again or have changed.
    pub(crate) fn forget_tools(&self) {
        self.tools.clear();
        self.cache.forget(method::TOOLS_LIST);
    }

    /// Adds the declaration of tasks to capabilities for 2026-07-28.
    pub(crate) fn with_tasks(&self, capabilities: ClientCapabilities) -> ClientCapabilities {
        if !self.options.tasks {
            return capabilities;
        }
        let extensions = capabilities.extensions.with(TASKS_EXTENSION, Map::new());
        ClientCapabilities { extensions, ..capabilities }
    }

    pub(crate) fn emit(&self, event: ClientEvent) {
        // An error means that there are no listeners.
        let _ = self.events.send(event);
    }

    /// Handles a notification that concerns no request of this client.
    pub(crate) fn handle_notification(&self, notification: &Notification<'_>) {
        let params = notification.params;
        let event = match &*notification.method {
            method::TOOLS_LIST_CHANGED => {
                self.forget_tools();
                ClientEvent::ToolsChanged
            }
            method::PROMPTS_LIST_CHANGED => {
                self.cache.forget(method::PROMPTS_LIST);
                ClientEvent::PromptsChanged
            }
            method::RESOURCES_LIST_CHANGED => {
                self.cache.forget(method::RESOURCES_LIST);
                self.cache.forget(method::RESOURCES_TEMPLATES_LIST);
                ClientEvent::ResourcesChanged
            }
            method::RESOURCES_UPDATED => match mcp_flow_proto::model::uri_from_params(params) {
                Ok(uri) => {
                    self.cache.forget_resource(&uri);
                    ClientEvent::ResourceUpdated { uri: uri.into_owned() }
                }
                Err(_) => return,
            },
            method::TASKS => match params.decode() {
                Ok(task) => ClientEvent::TaskChanged(Box::new(task)),
                Err(_) => return,
            },
            method::MESSAGE => match crate::calls::logging::read(params) {
                Some(event) => event,
                None => return,
            },
            method::SUBSCRIPTIONS_ACKNOWLEDGED => {
                return self.subscriptions.acknowledged(params);
            }
            other => {
                let params = params.decode().unwrap_or_default();
                if other == "interaction.expired" {
                    self.sessions.expire(&params);
                }
                ClientEvent::Other { method: other.chars().take(128).collect(), params }
            }
        };
        self.subscriptions.deliver(&event, params);
        self.emit(event);
    }
}

/// Maximum number of buffered events.
const EVENTS: usize = 256;
