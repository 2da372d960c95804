//! Following a task to its end: polling it, having the host answer its questions, and reporting its
//! status.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{DetailedTask, TaskState};
use mcp_flow_proto::{OwnedRaw, method};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::calls::input_required;
use crate::client::Client;
use crate::connection::RequestExtras;
use crate::error::{Error, ServerError};
use crate::event::RequestProgress;
use crate::host::Host;
use crate::transport::TransportError;

/// A task to follow.
pub(crate) struct FollowedTask<'a> {
    pub(crate) client: &'a Client,
    pub(crate) id: &'a str,
    /// The task as the call returned it, if this follows a call.
    pub(crate) created: Option<&'a DetailedTask>,
    /// Answers its questions, instead of the client's host.
    pub(crate) host: Option<&'a Arc<dyn Host>>,
    pub(crate) progress: Option<&'a mpsc::Sender<RequestProgress>>,
    /// Timeout of each response.
    pub(crate) timeout: Option<Duration>,
    /// Time after which a task is no longer followed.
    pub(crate) limit: Option<Duration>,
    /// Answers to send first, if the caller goes through the rounds: a task that asks anything else
    /// is returned.
    pub(crate) round: Option<Map<String, Value>>,
}

/// A task that has ended, or asks its caller, as it was received.
pub(crate) struct EndedTask {
    pub(crate) task: DetailedTask,
    pub(crate) raw: OwnedRaw,
}

impl<'a> FollowedTask<'a> {
    /// Follows the task. Boxed, because its requests are of the type that calls this.
    pub(crate) fn end(self) -> BoxFuture<'a, Result<EndedTask, Error>> {
        Box::pin(self.follow())
    }

    async fn follow(self) -> Result<EndedTask, Error> {
        let begun = Instant::now();
        let mut pace = PollPace::default();
        let mut status = StatusReports::new(self.progress);
        let mut answered = HashSet::new();
        let mut rounds = 0;
        if let Some(responses) = self.round.as_ref().filter(|responses| !responses.is_empty()) {
            answered.extend(responses.keys().cloned());
            self.update(responses).await?;
        }
        if let Some(created) = self.created {
            status.report(created);
            // Any other status has a payload, which is read at once.
            if created.state == TaskState::Working {
                tokio::time::sleep(pace.delay(created, fastrand::f64())).await;
            }
        }
        loop {
            let raw = retrying(self.client, || self.poll()).await?;
            let task: DetailedTask = raw.as_raw().decode()?;
            if task.task_id != self.id {
                return Err(Error::Protocol("tasks/get returned another task".to_owned()));
            }
            status.report(&task);
            if task.state.is_final() {
                return Ok(EndedTask { task, raw });
            }
            if let TaskState::InputRequired { input_requests } = &task.state {
                let open = input_requests.iter().filter(|(key, _)| !answered.contains(*key));
                let open: Map<String, Value> =
                    open.map(|(key, request)| (key.clone(), request.clone())).collect();
                if !open.is_empty() {
                    if self.round.is_some() {
                        return Ok(EndedTask { task, raw });
                    }
                    rounds += 1;
                    if rounds > self.client.inner.options.max_rounds {
                        let what = format!("the task asked for input {rounds} times");
                        return Err(Error::Protocol(what));
                    }
                    answered.extend(open.keys().cloned());
                    self.answer(open).await?;
                    pace = PollPace::default();
                    continue;
                }
            }
            if let Some(limit) = self.limit.filter(|limit| begun.elapsed() >= *limit) {
                return Err(Error::Timeout { what: "the end of a task".to_owned(), limit });
            }
            tokio::time::sleep(pace.delay(&task, fastrand::f64())).await;
        }
    }

    async fn poll(&self) -> Result<OwnedRaw, Error> {
        let mut request = self.client.get_task(self.id).encoded();
        if let Some(host) = self.host {
            request = request.host(host.clone());
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        request.await
    }

    /// Sends the host's answers to the server.
    async fn answer(&self, open: Map<String, Value>) -> Result<(), Error> {
        let inner = &self.client.inner;
        let connection = inner.connection().await?;
        let host = self.host.unwrap_or(&inner.host);
        let responses =
            input_required::collect_responses(inner, &connection, &**host, open).await?;
        self.update(&responses).await
    }

    async fn update(&self, responses: &Map<String, Value>) -> Result<(), Error> {
        let send = || {
            let request = self.client.update_task(self.id, responses.clone());
            match self.host {
                Some(host) => request.host(host.clone()),
                None => request,
            }
        };
        retrying(self.client, || send().into_future()).await
    }
}

/// Repeats a request about a task while it fails for a reason that passes: the task goes on.
async fn retrying<T, F>(client: &Client, send: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let backoff = client.inner.options.backoff;
    let mut failures = 0;
    loop {
        let error = match send().await {
            Err(error) if failures < MAX_FAILURES && is_passing(&error) => error,
            outcome => return outcome,
        };
        let wanted = error.server().and_then(|error| error.data.get("retryAfterMs")?.as_u64());
        let wanted = Duration::from_millis(wanted.unwrap_or_default()).min(MAX_QUIET);
        tokio::time::sleep(backoff.delay(failures, fastrand::f64()).max(wanted)).await;
        failures += 1;
    }
}

/// Returns whether a request about a task may succeed later.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::Timeout { .. } | Error::Lost { .. } => true,
        Error::Connect { source, .. } => match source {
            TransportError::Unreachable { .. } => true,
            TransportError::Refused { status, .. } => *status == 429 || *status >= 500,
            lost => lost.is_lost(),
        },
        Error::Server(error) => {
            error.code == INTERNAL_ERROR
                || matches!(error.name(), Some("RATE_LIMITED" | "OVERLOADED"))
        }
        _ => false,
    }
}

impl EndedTask {
    /// Returns the result of the call, or the error it ended with.
    pub(crate) fn result(&self) -> Result<OwnedRaw, Error> {
        match &self.task.state {
            TaskState::Failed { error } => Err(ServerError::from_value(error).into()),
            TaskState::Completed { .. } => {
                let [result] = self.raw.as_raw().members(["result"])?;
                let missing = || Error::Protocol("a completed task needs a result".to_owned());
                Ok(result.ok_or_else(missing)?.to_owned())
            }
            _ => Err(Error::Cancelled {
                task: self.task.task_id.clone(),
                reason: self.task.status_message.clone(),
            }),
        }
    }
}

/// Reports the status messages of a task as progress; the first report says that there is a task.
struct StatusReports<'a> {
    progress: Option<&'a mpsc::Sender<RequestProgress>>,
    last: Option<Option<String>>,
    count: u32,
}

impl<'a> StatusReports<'a> {
    fn new(progress: Option<&'a mpsc::Sender<RequestProgress>>) -> Self {
        Self { progress, last: None, count: 0 }
    }

    fn report(&mut self, task: &DetailedTask) {
        let Some(progress) = self.progress else { return };
        let is_known = self.last.as_ref() == Some(&task.status_message);
        if task.state != TaskState::Working || is_known {
            return;
        }
        self.last = Some(task.status_message.clone());
        self.count += 1;
        let message = task.status_message.clone();
        // A slow consumer misses reports.
        let step = RequestProgress { progress: f64::from(self.count), total: None, message };
        let _ = progress.try_send(step);
    }
}

/// Delays between polls: the interval that the server suggests, longer while nothing changes.
#[derive(Default)]
struct PollPace {
    last: Option<(String, &'static str, Option<String>)>,
    /// Number of polls without a change.
    quiet: u32,
}

impl PollPace {
    /// Delay after a poll that returned this task. `random` is between 0 and 1.
    fn delay(&mut self, task: &DetailedTask, random: f64) -> Duration {
        let seen = (task.last_updated_at.clone(), task.state.name(), task.status_message.clone());
        let is_quiet = self.last.as_ref() == Some(&seen);
        self.quiet = if is_quiet { self.quiet.saturating_add(1) } else { 0 };
        self.last = Some(seen);
        let interval = task.poll_interval_ms.map_or(DEFAULT_INTERVAL, Duration::from_millis);
        let interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        let stretched = interval.mul_f64(1.0 + f64::from(self.quiet.min(20)) / 10.0);
        let delay = stretched.min(interval.max(MAX_QUIET));
        // Jitter keeps clients apart, and never polls sooner than suggested.
        delay.mul_f64(1.0 + random.clamp(0.0, 1.0) / 8.0)
    }
}

/// Cancels a task on drop, unless disarmed.
pub(crate) struct CancelTaskOnDrop<'a> {
    client: &'a Client,
    id: &'a str,
    is_armed: bool,
}

impl<'a> CancelTaskOnDrop<'a> {
    pub(crate) fn new(client: &'a Client, id: &'a str) -> Self {
        Self { client, id, is_armed: true }
    }

    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelTaskOnDrop<'_> {
    fn drop(&mut self) {
        let Some(connection) = self.client.inner.current().filter(|_| self.is_armed) else {
            return;
        };
        let extras = RequestExtras { name: Some(self.id), ..RequestExtras::default() };
        let params = json!({"taskId": self.id});
        // Dropping the exchange must not cancel the request.
        if let Ok(mut sent) = connection.request(method::TASKS_CANCEL.into(), &params, &extras) {
            sent.keeps_on_drop = true;
        }
    }
}

/// Limit on consecutive failures of a request about a task.
const MAX_FAILURES: u32 = 8;

/// Error code of JSON-RPC.
const INTERNAL_ERROR: i64 = -32603;

/// Interval between polls where the server suggests none.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Bounds of the interval that a server can suggest.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(600);

/// Longest interval between polls of a task that does not change, unless the server suggests more.
const MAX_QUIET: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcp_flow_proto::model::DetailedTask;
    use serde_json::{Value, json};

    use super::PollPace;

    fn task(interval: &Value, message: &str) -> DetailedTask {
        let task = json!({"taskId": "a", "status": "working", "statusMessage": message,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z",
            "ttlMs": null, "pollIntervalMs": interval});
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn polls_keep_to_the_interval_and_slow_down_while_nothing_changes() {
        let mut pace = PollPace::default();
        let mut delays = |message: &str| pace.delay(&task(&json!(1000), message), 0.0).as_millis();
        assert_eq!(["1", "2", "2", "2", "3"].map(&mut delays), [1000, 1000, 1100, 1200, 1000]);
        let longest = (0..100).map(|_| delays("3")).max();
        assert_eq!(longest, Some(3000));
    }

    #[test]
    fn intervals_are_bounded_and_never_shortened() {
        for (interval, low, high) in [
            (json!(0), 50, 56),
            (json!(null), 1000, 1125),
            (json!(60_000), 60_000, 67_500),
            (json!(u64::MAX), 600_000, 675_000),
        ] {
            for (random, expected) in [(0.0, low), (1.0, high)] {
                let delay = PollPace::default().delay(&task(&interval, ""), random);
                assert_eq!(delay.as_millis(), expected, "{interval} {random}");
            }
        }
        let mut pace = PollPace::default();
        let slow = task(&json!(25_000), "");
        let delays = [(); 9].map(|()| pace.delay(&slow, 0.0));
        assert_eq!(delays.last(), Some(&Duration::from_secs(30)));
    }
}
