//! A typed request: approval, `input_required` rounds and tasks. `attempt` sends it, with timeouts and
//! retries; `running` reports its progress.

mod attempt;
mod running;

use std::borrow::Cow;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::DetailedTask;
use mcp_flow_proto::{OwnedRaw, Raw, method};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::calls::input_required::{self, Input, ResultKind};
use crate::calls::result_cache::CacheKey;
use crate::calls::task_polling::{CancelTaskOnDrop, FollowedTask};
use crate::calls::tasks::DetachedCall;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::event::RequestProgress;
use crate::host::Host;

pub use running::RunningRequest;

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
    /// Set if the result may be served from the cache.
    cache_key: Option<CacheKey>,
    progress: Option<mpsc::Sender<RequestProgress>>,
    host: Option<Arc<dyn Host>>,
    /// Members that answer the previous round, if the caller goes through the rounds.
    round: Option<Input>,
    /// Set if the request reads a task that is to be followed to its end.
    is_followed: bool,
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
            cache_key: None,
            progress: None,
            host: None,
            round: None,
            is_followed: false,
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

    /// Serves the result from the client's cache while it is fresh, under this cursor or URI.
    pub(crate) fn cached(mut self, subject: &str) -> Self {
        self.cache_key = CacheKey::new(&self.method, subject);
        self
    }

    /// Asks the server even if the result is in the client's cache.
    pub fn fresh(mut self) -> Self {
        if let Some(key) = self.cache_key.take() {
            self.client.inner.cache.forget_result(&key);
        }
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
        self.read_by(|raw: Raw<'_>| Ok(raw.decode()?))
    }

    /// Returns the result as it was received, without decoding it.
    pub fn encoded(self) -> Request<P, OwnedRaw> {
        self.read_by(|raw: Raw<'_>| Ok(raw.to_owned()))
    }

    fn read_by<T>(self, read: fn(Raw<'_>) -> Result<T, Error>) -> Request<P, T> {
        Request {
            client: self.client,
            method: self.method,
            params: self.params,
            read,
            name: self.name,
            headers: self.headers,
            meta: self.meta,
            timeout: self.timeout,
            repeatable: self.repeatable,
            cache_key: self.cache_key,
            progress: self.progress,
            host: self.host,
            round: self.round,
            is_followed: self.is_followed,
        }
    }

    /// Follows the task that the request reads to its end.
    pub(crate) fn followed(mut self) -> Self {
        self.is_followed = true;
        self
    }

    /// Sets the host that answers the server's requests during this request, instead of the client's.
    /// Under 2026-07-28 the request declares the capabilities of this host.
    ///
    /// A request of the server belongs to this one if it arrives on its response stream, or if this is
    /// the only pending request with a host of its own.
    pub fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }

    /// Sends one round of a multi-round request (2026-07-28), with the answers and the state of the
    /// previous one. A result of type `input_required` or `task` is returned as it is; nobody is
    /// asked, and no task is followed. Tasks are accepted if the capabilities of the request's
    /// [`host`](Self::host) declare them.
    ///
    /// With [`Client::follow_task`] the answers are sent to the task, which is followed until it ends or
    /// asks something else.
    pub fn round(mut self, responses: Map<String, Value>, state: Option<String>) -> Self {
        let mut input = Input::new();
        if !responses.is_empty() {
            input.push(("inputResponses", Value::from(responses).to_string()));
        }
        input.extend(state.map(|state| ("requestState", Value::from(state).to_string())));
        self.round = Some(input);
        self
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

    /// Sends a call without waiting for its end: if the server continues it as a task, the task is
    /// returned, and read later by [`Client::get_task`] or [`Client::follow_task`].
    pub async fn detach(mut self) -> Result<DetachedCall<R>, Error> {
        match self.complete_rounds().await? {
            Sent::Result { connection, raw } => {
                self.read_result(&connection, &raw).await.map(DetachedCall::Completed)
            }
            Sent::Task(task) => Ok(DetachedCall::Task(task)),
        }
    }

    async fn run(mut self) -> Result<R, Error> {
        if self.is_followed {
            let id = self.name.as_deref().unwrap_or_default();
            let round = self.round.as_ref().map(responses);
            let followed = FollowedTask { round, ..self.followed_task(id) };
            return (self.read)(followed.end().await?.raw.as_raw());
        }
        let task = match self.complete_rounds().await? {
            Sent::Result { connection, raw } => return self.read_result(&connection, &raw).await,
            Sent::Task(task) => task,
        };
        // Dropping a request cancels it, which a task does not notice by itself.
        let unfinished = CancelTaskOnDrop::new(&self.client, &task.task_id);
        let followed = FollowedTask {
            created: Some(&task),
            limit: Some(self.client.inner.options.total_timeout),
            ..self.followed_task(&task.task_id)
        };
        let ended = followed.end().await;
        // Whoever does not answer does not want the result either.
        if !matches!(ended, Err(Error::Denied(_))) {
            unfinished.disarm();
        }
        let left = |error| match error {
            Error::Denied(_) => error,
            error => Error::Unfollowed { task: task.task_id.clone(), source: Box::new(error) },
        };
        let result = ended.map_err(left)?.result()?;
        let connection = self.client.inner.connection().await.map_err(left)?;
        self.read_result(&connection, &result).await
    }

    fn followed_task<'a>(&'a self, id: &'a str) -> FollowedTask<'a> {
        FollowedTask {
            client: &self.client,
            id,
            created: None,
            host: self.host.as_ref(),
            progress: self.progress.as_ref(),
            timeout: self.timeout,
            limit: None,
            round: None,
        }
    }

    async fn read_result(&self, connection: &Connection, raw: &OwnedRaw) -> Result<R, Error> {
        if let Some((tool, _)) = self.params.proposal().filter(|_| !self.relays()) {
            self.client.check_output(connection, tool, raw.as_raw()).await?;
        }
        (self.read)(raw.as_raw())
    }

    /// Returns whether the caller goes through the rounds, and follows tasks.
    fn relays(&self) -> bool {
        self.round.is_some()
    }

    /// Returns whether the request accepts a task as its result, and declares that.
    fn takes_tasks(&self) -> bool {
        !self.relays() && self.client.inner.options.tasks && *self.method == *method::TOOLS_CALL
    }

    /// Sends the request, and answers the server's questions until there is a result or a task.
    async fn complete_rounds(&mut self) -> Result<Sent, Error> {
        if let Some((tool, arguments)) = self.params.proposal() {
            self.headers = self.client.prepare_call(tool, arguments).await?;
        }
        let mut refreshed = false;
        let mut input: Input = self.round.clone().unwrap_or_default();
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
            if self.relays() {
                return Ok(Sent::Result { connection, raw });
            }
            let takes_tasks = self.takes_tasks();
            let kind =
                input_required::read_kind(&connection, &self.method, takes_tasks, raw.as_raw())?;
            let needed = match kind {
                ResultKind::Complete => return Ok(Sent::Result { connection, raw }),
                ResultKind::Task(task) => return Ok(Sent::Task(task)),
                ResultKind::InputRequired(needed) => needed,
            };
            rounds += 1;
            if rounds > self.client.inner.options.max_rounds {
                let what = format!("the server asked for input {rounds} times");
                return Err(Error::Protocol(what));
            }
            let inner = &self.client.inner;
            let host = self.host.as_ref().unwrap_or(&inner.host);
            input = input_required::collect_input(inner, &connection, &**host, needed).await?;
        }
    }
}

/// The answers of a round.
fn responses(round: &Input) -> Map<String, Value> {
    let responses = round.iter().find(|(name, _)| *name == "inputResponses");
    responses.and_then(|(_, text)| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Response to a request, after its rounds.
enum Sent {
    Result { connection: Arc<Connection>, raw: OwnedRaw },
    Task(Box<DetailedTask>),
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

/// Error code for headers that differ from the body.
const HEADER_MISMATCH: i64 = -32020;

/// Maximum number of buffered progress reports.
const MAX_STEPS: usize = 64;
