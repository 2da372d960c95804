//! A typed request: approval, sending, timeouts, retries and `input_required` rounds.

use std::borrow::Cow;
use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use mcp_flow_proto::{OwnedRaw, Raw, method};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::calls::input_required::{self, Input};
use crate::client::Client;
use crate::connection::pending::{ProgressSink, RequestFailure};
use crate::connection::{Connection, Exchange, RequestError, RequestExtras};
use crate::error::Error;
use crate::event::RequestProgress;
use crate::transport::TransportError;

/// A request that is not sent yet. Await it for the result, or [`start`](Self::start) it to receive
/// progress as well. Dropping it while it is pending cancels it at the server.
#[must_use = "a request does nothing until it is awaited or started"]
pub struct Request<P, R> {
    client: Client,
    method: Cow<'static, str>,
    params: P,
    read: fn(Raw<'_>) -> Result<R, Error>,
    name: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    meta: Map<String, Value>,
    timeout: Option<Duration>,
    repeatable: bool,
    progress: Option<mpsc::Sender<RequestProgress>>,
}

impl<P, R> Request<P, R> {
    pub(crate) fn new(
        client: &Client,
        method: Cow<'static, str>,
        params: P,
        read: fn(Raw<'_>) -> Result<R, Error>,
    ) -> Self {
        Self {
            client: client.clone(),
            method,
            params,
            read,
            name: None,
            headers: Vec::new(),
            meta: Map::new(),
            timeout: None,
            repeatable: false,
            progress: None,
        }
    }

    /// Sets the name or URI that some transports repeat in a header.
    pub(crate) fn about(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the timeout for the response; each progress notification restarts it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use std::time::Duration;
    /// # use serde_json::json;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).timeout(Duration::from_secs(1));
    /// assert_eq!(sum.await?.text(), "5");
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Marks the request as idempotent, so that it is sent again if the connection breaks. Requests
    /// that only read are idempotent already; tool calls are not, whatever the server claims.
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Returns the result as raw JSON instead of a typed value.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # use serde_json::json;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let sum = client.call_tool("math.add", json!({"a": 2, "b": 3})).raw().await?;
    /// assert_eq!(sum["content"][0]["text"], "5");
    /// # Ok(())
    /// # }
    /// ```
    pub fn raw(self) -> Request<P, Value> {
        Request {
            client: self.client,
            method: self.method,
            params: self.params,
            read: |raw: Raw<'_>| Ok(raw.decode()?),
            name: self.name,
            headers: self.headers,
            meta: self.meta,
            timeout: self.timeout,
            repeatable: self.repeatable,
            progress: self.progress,
        }
    }

    /// Adds members to the request's `_meta`.
    pub fn meta(mut self, members: Map<String, Value>) -> Self {
        self.meta.extend(members);
        self
    }
}

/// Params of a request.
pub trait RequestParams: Serialize + Send + Sync + 'static {
    /// Tool and arguments of a tool call, which the host has to approve.
    fn proposal(&self) -> Option<(&str, &Value)> {
        None
    }
}

impl RequestParams for Value {}
impl RequestParams for Map<String, Value> {}

impl<P, R> Request<P, R>
where
    P: RequestParams,
    R: Send + 'static,
{
    /// Sends the request and returns a handle with its progress and result.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// use futures_util::StreamExt;
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    ///
    /// let mut call = client.call_tool("report", serde_json::json!({})).start();
    /// let mut steps = Vec::new();
    /// while let Some(step) = call.next().await {
    ///     steps.push(step.progress);
    /// }
    /// assert_eq!(steps, [1.0, 2.0, 3.0]);
    /// assert_eq!(call.await?.text(), "reported");
    /// # Ok(())
    /// # }
    /// ```
    pub fn start(mut self) -> RunningRequest<R> {
        let (sender, steps) = mpsc::channel(MAX_STEPS);
        self.progress = Some(sender);
        RunningRequest { steps, result: self.into_future(), early: None }
    }

    async fn run(mut self) -> Result<R, Error> {
        if let Some((tool, arguments)) = self.params.proposal() {
            self.headers = self.client.prepare_call(tool, arguments).await?;
        }
        let mut refreshed = false;
        let mut input: Input = Vec::new();
        let mut rounds = 0;
        loop {
            let (connection, raw) = match self.exchange(&input).await {
                Err(Error::Server(error)) if error.code == HEADER_MISMATCH && !refreshed => {
                    // The tool's headers have changed since it was listed.
                    refreshed = true;
                    if let Some((tool, arguments)) = self.params.proposal() {
                        self.client.inner.forget_tools();
                        self.headers = self.client.prepare_call(tool, arguments).await?;
                        continue;
                    }
                    return Err(error.into());
                }
                exchanged => exchanged?,
            };
            let Some(needed) =
                input_required::read_required(&connection, &self.method, raw.as_raw())?
            else {
                return (self.read)(raw.as_raw());
            };
            rounds += 1;
            if rounds > self.client.inner.options.max_rounds {
                let what = format!("the server asked for input {rounds} times");
                return Err(Error::Protocol(what));
            }
            input = input_required::collect_input(&self.client.inner, &connection, needed).await?;
        }
    }

    /// Sends the request and waits for its response, retrying if that is safe.
    async fn exchange(&self, input: &Input) -> Result<(Arc<Connection>, OwnedRaw), Error> {
        let mut attempt = 0;
        let meta = self.meta_members();
        loop {
            let connection = self.client.inner.connection().await?;
            let (error, is_sent) = match self.once(&connection, input, &meta).await {
                Ok(raw) => return Ok((connection, raw)),
                Err(AttemptError::Final(error)) => return Err(error),
                Err(AttemptError::Transport { error, is_sent }) => (error, is_sent),
            };
            attempt += 1;
            let may_repeat = !is_sent || (self.repeatable && is_passing(&error));
            let attempts = self.client.inner.options.backoff.attempts;
            if !may_repeat || attempt > attempts || !self.client.inner.connector().reconnects() {
                return Err(self.explain(error, is_sent));
            }
            if !connection.is_closed() {
                let backoff = self.client.inner.options.backoff;
                tokio::time::sleep(backoff.delay(attempt - 1, fastrand::f64())).await;
            }
        }
    }

    async fn once(
        &self,
        connection: &Arc<Connection>,
        input: &Input,
        meta: &str,
    ) -> Result<OwnedRaw, AttemptError> {
        let stateless = connection.revision().is_stateless();
        let method = match &*self.method {
            // 2026-07-28 has no ping.
            method::PING if stateless => Cow::Borrowed(method::SERVER_DISCOVER),
            _ => self.method.clone(),
        };
        let level = self.client.inner.log_level_member(stateless);
        let meta = match (meta, level) {
            (meta, None) => Cow::Borrowed(meta),
            ("", Some(level)) => Cow::Owned(level),
            (meta, Some(level)) => Cow::Owned(format!("{meta},{level}")),
        };
        // Progress is requested only if the caller wants it.
        let sink =
            (self.progress.is_some()).then(|| Arc::new(ProgressSink::new(self.progress.clone())));
        let extras = RequestExtras {
            meta: &meta,
            input,
            name: self.name.as_deref(),
            headers: &self.headers,
            progress: sink.clone(),
        };
        let exchange = match connection.request(method, &self.params, &extras) {
            Ok(exchange) => exchange,
            Err(RequestError::Usage(what)) => return Err(AttemptError::Final(Error::Usage(what))),
            Err(RequestError::Unsent(error)) => {
                return Err(AttemptError::Transport { error, is_sent: false });
            }
        };
        match self.wait(connection, exchange, sink).await? {
            Ok(raw) => Ok(raw),
            Err(RequestFailure::Server(error)) => Err(AttemptError::Final(error.into())),
            Err(RequestFailure::Transport(error)) => {
                let is_sent = !matches!(error, TransportError::Unreachable { .. });
                Err(AttemptError::Transport { error, is_sent })
            }
        }
    }

    /// Waits for the response until its timeout.
    async fn wait(
        &self,
        connection: &Connection,
        mut exchange: Exchange,
        sink: Option<Arc<ProgressSink>>,
    ) -> Result<Result<OwnedRaw, RequestFailure>, AttemptError> {
        let options = &self.client.inner.options;
        let limit = self.timeout.unwrap_or(options.request_timeout);
        let begun = Instant::now();
        let mut seen = 0;
        loop {
            if let Ok(reply) = tokio::time::timeout(limit, exchange.reply()).await {
                return Ok(reply);
            }
            let reports = sink.as_ref().map_or(0, |sink| sink.count());
            // While the host answers a request of the server, the host's own timeout applies.
            let is_asking = connection.server_requests().are_open();
            if (reports == seen && !is_asking) || begun.elapsed() >= options.total_timeout {
                break;
            }
            seen = reports;
        }
        Err(AttemptError::Final(match connection.last_invalid_message() {
            Some(garbage) => Error::Protocol(format!(
                "no response to {} within {}, only invalid messages such as {garbage:?}",
                self.method,
                crate::error::Seconds(limit),
            )),
            None => Error::Timeout { what: self.method.to_string(), limit },
        }))
    }

    fn meta_members(&self) -> String {
        if self.meta.is_empty() {
            return String::new();
        }
        let text = serde_json::to_string(&self.meta).unwrap_or_default();
        text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
    }

    fn explain(&self, source: TransportError, is_sent: bool) -> Error {
        let method = self.method.to_string();
        match source {
            TransportError::InvalidMessage(what) => Error::Protocol(what),
            source if is_sent && is_passing(&source) => Error::Lost { method, source },
            // The server may have processed it, though its response is not trusted.
            source @ TransportError::InvalidSignature(_) if is_sent => {
                Error::Lost { method, source }
            }
            source => Error::Connect { target: self.client.inner.target.clone(), source },
        }
    }
}

/// Failure of one attempt.
enum AttemptError {
    Final(Error),
    Transport { error: TransportError, is_sent: bool },
}

/// Returns whether an error is transient.
fn is_passing(error: &TransportError) -> bool {
    match error {
        TransportError::Lost(_) | TransportError::Unreachable { .. } => true,
        TransportError::Refused { status, .. } => *status >= 500 || *status == 429,
        _ => false,
    }
}

impl<P, R> IntoFuture for Request<P, R>
where
    P: RequestParams,
    R: Send + 'static,
{
    type Output = Result<R, Error>;
    type IntoFuture = BoxFuture<'static, Result<R, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<P, R> std::fmt::Debug for Request<P, R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// A pending request: a stream of its progress and a future of its result. The stream ends when the
/// result has arrived. Dropping it cancels the request.
#[must_use = "dropping it cancels the request"]
pub struct RunningRequest<R> {
    steps: mpsc::Receiver<RequestProgress>,
    result: BoxFuture<'static, Result<R, Error>>,
    early: Option<Result<R, Error>>,
}

impl<R> Stream for RunningRequest<R> {
    type Item = RequestProgress;

    fn poll_next(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<RequestProgress>> {
        if self.early.is_none()
            && let Poll::Ready(result) = self.result.as_mut().poll(task)
        {
            self.early = Some(result);
        }
        match self.steps.poll_recv(task) {
            Poll::Ready(step) => Poll::Ready(step),
            Poll::Pending if self.early.is_some() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<R> Unpin for RunningRequest<R> {}

impl<R> Future for RunningRequest<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<R, Error>> {
        match self.early.take() {
            Some(result) => Poll::Ready(result),
            None => self.result.as_mut().poll(task),
        }
    }
}

impl<R> std::fmt::Debug for RunningRequest<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunningRequest").finish_non_exhaustive()
    }
}

/// Error code for headers that differ from the body.
const HEADER_MISMATCH: i64 = -32020;

/// Maximum number of buffered progress reports.
const MAX_STEPS: usize = 64;
