//! `[limits]`: how much clients may ask of the server.

use std::time::Duration;

use mcp_flow::{Limits, Rate, http, webtransport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problems;

/// Bounds on what clients can make the server hold or do. A change counts for connections that are
/// opened after it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsSection {
    /// Longest message accepted, in bytes.
    #[schemars(range(min = 1024))]
    pub(crate) frame_bytes: usize,
    /// Calls of one connection running at the same time; one means strictly in order.
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) concurrency: usize,
    /// Longest result, in bytes.
    #[schemars(range(min = 1024))]
    pub(crate) result_bytes: usize,
    /// Longest result that is sent in a message where it could also be fetched beside, in bytes.
    pub(crate) inline_bytes: usize,
    /// Bytes of replies that wait to be sent before no further call is started.
    #[schemars(range(min = 1024))]
    pub(crate) outbound_bytes: usize,
    /// Messages in one batch.
    #[schemars(range(min = 1))]
    pub(crate) batch: usize,
    /// How many seconds one call may run.
    #[schemars(range(min = 1))]
    pub(crate) call_seconds: u64,
    /// How many seconds a person or a model behind the client may take to answer.
    #[schemars(range(min = 1))]
    pub(crate) answer_seconds: u64,
    /// Subscriptions of one client that may be open at once.
    pub(crate) subscriptions: usize,
    /// Resources that one connection may be subscribed to.
    pub(crate) resource_subscriptions: usize,
    /// Entries on one page of a list.
    #[schemars(range(min = 1))]
    pub(crate) page: usize,
    /// How many requests a second a principal may send in the long run, by all of its connections;
    /// 0 for any number. If nothing is said: 200 where others can reach the server, any number
    /// elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) requests_per_second: Option<f64>,
    /// How many requests a principal may send at once, after a pause.
    #[schemars(range(min = 1))]
    pub(crate) request_burst: u32,
    /// How many requests a second a connection may take in the long run; 0 for any
    /// number. If nothing is said: 100 where others can reach the server, any number elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub(crate) session_requests_per_second: Option<f64>,
    /// How many requests a connection may take at once, after a pause.
    #[schemars(range(min = 1))]
    pub(crate) session_request_burst: u32,
    /// Bytes that all clients together may make the server hold; past it requests are refused.
    #[schemars(range(min = 1_048_576))]
    pub(crate) memory_bytes: usize,
    /// Connections by HTTP and WebSocket; more are refused. Counts from the start.
    #[schemars(range(min = 1))]
    pub(crate) connections: usize,
    /// Connections by WebTransport; more are refused. Counts from the start.
    #[schemars(range(min = 1))]
    pub(crate) webtransport_connections: usize,
    /// Sessions by HTTP; past it those that have been idle longest are ended. Counts from the start.
    #[schemars(range(min = 1))]
    pub(crate) sessions: usize,
    /// How many seconds a session by HTTP lives that nobody uses and that has no stream open. Counts
    /// from the start.
    #[schemars(range(min = 1))]
    pub(crate) session_idle_seconds: u64,
    /// How many seconds a result that is fetched beside waits for that. Counts from the start.
    #[schemars(range(min = 1))]
    pub(crate) download_seconds: u64,
    /// Execution streams of one WebTransport session. Counts from the start.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) streams: u32,
    /// How many seconds a client may take to shake hands, or to send the head of a request. Counts
    /// from the start.
    #[schemars(range(min = 1))]
    pub(crate) head_seconds: u64,
    /// How many seconds a client may take to send the next piece of a body. Counts from the start.
    #[schemars(range(min = 1))]
    pub(crate) body_seconds: u64,
    /// How many seconds a quiet stream or WebSocket waits before it shows that it is alive; a client
    /// of a WebSocket that says nothing for three times as long is gone. Counts from the start.
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
            problems.add(&["limits", key], format!("limits.{key} must be a number from 0"));
        }
    }

    /// What counts from the start only.
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

    /// What the HTTP transports keep to.
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

    /// What WebTransport keeps to.
    pub(crate) fn webtransport(&self) -> webtransport::Options {
        webtransport::Options {
            max_connections: self.webtransport_connections,
            max_streams: self.streams.max(1),
            handshake_timeout: at_least_a_second(self.head_seconds),
            ..webtransport::Options::default()
        }
    }

    /// The same as the server takes them. Bounds that make no sense are moved to one that does.
    ///
    /// How often clients may ask is bounded by itself only where others can reach the server.
    pub(crate) fn limits(&self, drain_seconds: u64, is_open: bool) -> Limits {
        let rate = |said: Option<f64>, open: f64, burst: u32| {
            let per_second = said.unwrap_or(if is_open { open } else { 0.0 });
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
