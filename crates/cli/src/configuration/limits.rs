//! `[limits]`: how much clients may ask of the server.

use std::time::Duration;

use mcp_flow::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds on what one connection can make the server hold or do. A change counts for connections
/// that are opened after it.
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
        }
    }
}

impl LimitsSection {
    /// The same as the server takes them. Bounds that make no sense are moved to one that does.
    pub(crate) fn limits(&self, drain_seconds: u64) -> Limits {
        let at_least_a_second = |seconds: u64| Duration::from_secs(seconds.max(1));
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
            ..Limits::default()
        }
    }
}
