//! `[limits]`: resource limits for clients.

use std::time::Duration;

use mcp_flow::{Limits, Rate, http, webtransport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// Resource limits for clients. A change applies to new connections.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    /// Longest message accepted, in bytes.
    #[schemars(range(min = 1024))]
    pub(crate) frame_bytes: usize,
    /// Concurrent calls per connection; 1 runs them strictly in order.
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) concurrency: usize,
    /// Longest tool result, in bytes.
    #[schemars(range(min = 1024))]
    pub(crate) result_bytes: usize,
    /// Longest result that is sent inline rather than as a download, in bytes.
    pub(crate) inline_bytes: usize,
    /// Bytes of unsent responses from which no further call is started.
    #[schemars(range(min = 1024))]
    pub(crate) outbound_bytes: usize,
    /// Messages in one batch.
    #[schemars(range(min = 1))]
    pub(crate) batch: usize,
    /// Longest duration of a call, in seconds.
    #[schemars(range(min = 1))]
    pub(crate) call_seconds: u64,
    /// Longest wait for an answer of the client's user or model, in seconds.
    #[schemars(range(min = 1))]
    pub(crate) answer_seconds: u64,
    /// Open subscriptions per client.
    pub(crate) subscriptions: usize,
    /// Resource subscriptions per connection.
    pub(crate) resource_subscriptions: usize,
    /// Entries per page of a list.
    #[schemars(range(min = 1))]
    pub(crate) page: usize,
    /// Rate limit per principal, in requests per second; 0 disables it. Default: 200 on a public
    /// address, otherwise 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) requests_per_second: Option<f64>,
    /// Burst of the rate limit per principal, in requests.
    #[schemars(range(min = 1))]
    pub(crate) request_burst: u32,
    /// Rate limit per connection, in requests per second; 0 disables it. Default: 100 on a public
    /// address, otherwise 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) session_requests_per_second: Option<f64>,
    /// Burst of the rate limit per connection, in requests.
    #[schemars(range(min = 1))]
    pub(crate) session_request_burst: u32,
    /// Bytes of memory held for all clients together: incoming messages, running and queued
    /// requests, unread responses. Above it requests are rejected.
    #[schemars(range(min = 1_048_576))]
    pub(crate) memory_bytes: usize,
    /// HTTP and WebSocket connections; more are rejected. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) connections: usize,
    /// WebTransport connections; more are rejected. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) webtransport_connections: usize,
    /// HTTP sessions; above it the principal's longest idle ones are ended. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) sessions: usize,
    /// Idle timeout of an HTTP session without an open stream, in seconds. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) session_idle_seconds: u64,
    /// Lifetime of a download link, in seconds. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) download_seconds: u64,
    /// Execution streams per WebTransport session. Needs a restart.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) streams: u32,
    /// Timeout for a handshake and for a request head, in seconds. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) head_seconds: u64,
    /// Timeout for the next part of a request body, in seconds. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) body_seconds: u64,
    /// Interval of keep-alives on idle streams and WebSockets, in seconds. A WebSocket client that is
    /// silent for three intervals is disconnected. Needs a restart.
    #[schemars(range(min = 1))]
    pub(crate) keep_alive_seconds: u64,
}

impl Default for LimitsSection {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            frame_bytes: limits.frame,
            concurrency: limits.concurrency,
            result_bytes: limits.result_bytes,
            inline_bytes: limits.inline_bytes,
            outbound_bytes: limits.outbound_bytes,
            batch: limits.batch,
            call_seconds: limits.call_time.as_secs(),
            answer_seconds: limits.answer_time.as_secs(),
            subscriptions: limits.subscriptions,
            resource_subscriptions: limits.resource_subscriptions,
            page: limits.page,
            requests_per_second: None,
            request_burst: 1_000,
            session_requests_per_second: None,
            session_request_burst: 500,
            memory_bytes: limits.memory,
            connections: http::Options::default().max_connections,
            webtransport_connections: webtransport::Options::default().max_connections,
            sessions: http::Options::default().max_sessions,
            session_idle_seconds: http::Options::default().session_idle_timeout.as_secs(),
            download_seconds: http::Options::default().download_lifetime.as_secs(),
            streams: webtransport::Options::default().max_streams,
            head_seconds: http::Options::default().head_timeout.as_secs(),
            body_seconds: http::Options::default().body_timeout.as_secs(),
            keep_alive_seconds: http::Options::default().keep_alive.as_secs(),
        }
    }
}

impl LimitsSection {
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        let rates = [
            ("requests_per_second", self.requests_per_second),
            ("session_requests_per_second", self.session_requests_per_second),
        ];
        let is_rate = |rate: f64| rate.is_finite() && rate >= 0.0;
        for (key, _) in
            rates.into_iter().filter(|(_, rate)| rate.is_some_and(|rate| !is_rate(rate)))
        {
            problems.add(&["limits", key], format!("limits.{key} must be 0 or more"));
        }
    }

    /// Returns the limits that need a restart.
    pub(super) fn fixed(&self) -> [(String, serde_json::Value); 9] {
        [
            ("limits.connections".to_owned(), self.connections.into()),
            ("limits.webtransport_connections".to_owned(), self.webtransport_connections.into()),
            ("limits.sessions".to_owned(), self.sessions.into()),
            ("limits.session_idle_seconds".to_owned(), self.session_idle_seconds.into()),
            ("limits.download_seconds".to_owned(), self.download_seconds.into()),
            ("limits.streams".to_owned(), self.streams.into()),
            ("limits.head_seconds".to_owned(), self.head_seconds.into()),
            ("limits.body_seconds".to_owned(), self.body_seconds.into()),
            ("limits.keep_alive_seconds".to_owned(), self.keep_alive_seconds.into()),
        ]
    }

    /// Converts to the options of the HTTP transports.
    pub(crate) fn http(&self) -> http::Options {
        http::Options {
            max_connections: self.connections,
            max_sessions: self.sessions,
            session_idle_timeout: at_least_a_second(self.session_idle_seconds),
            download_lifetime: at_least_a_second(self.download_seconds),
            head_timeout: at_least_a_second(self.head_seconds),
            body_timeout: at_least_a_second(self.body_seconds),
            keep_alive: at_least_a_second(self.keep_alive_seconds),
            ..http::Options::default()
        }
    }

    /// Converts to the options of WebTransport.
    pub(crate) fn webtransport(&self) -> webtransport::Options {
        webtransport::Options {
            max_connections: self.webtransport_connections,
            max_streams: self.streams.max(1),
            handshake_timeout: at_least_a_second(self.head_seconds),
            ..webtransport::Options::default()
        }
    }

    /// Converts to the limits of the server. Values out of range are clamped.
    ///
    /// Rate limits have a default on public addresses only.
    pub(crate) fn limits(&self, drain_seconds: u64, is_public: bool) -> Limits {
        let rate = |configured: Option<f64>, default: f64, burst: u32| {
            let per_second = configured.unwrap_or(if is_public { default } else { 0.0 });
            (per_second > 0.0).then_some(Rate { burst: burst.max(1), per_second })
        };
        Limits {
            frame: self.frame_bytes.max(1024),
            concurrency: self.concurrency.clamp(1, 65_536),
            result_bytes: self.result_bytes.max(1024),
            inline_bytes: self.inline_bytes,
            outbound_bytes: self.outbound_bytes.max(1024),
            batch: self.batch.max(1),
            call_time: at_least_a_second(self.call_seconds),
            answer_time: at_least_a_second(self.answer_seconds),
            drain_time: Duration::from_secs(drain_seconds),
            subscriptions: self.subscriptions,
            resource_subscriptions: self.resource_subscriptions,
            page: self.page.max(1),
            principal_rate: rate(self.requests_per_second, 200.0, self.request_burst),
            session_rate: rate(self.session_requests_per_second, 100.0, self.session_request_burst),
            memory: self.memory_bytes.max(1024 * 1024),
            ..Limits::default()
        }
    }
}

fn at_least_a_second(seconds: u64) -> Duration {
    Duration::from_secs(seconds.max(1))
}
