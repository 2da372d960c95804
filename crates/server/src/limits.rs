//! How much clients may ask of the server.

use std::time::Duration;

use mcp_flow_rate::Rate;

/// Bounds on what clients can make the server hold or do: one connection, unless something else is
/// said.
///
/// The defaults are safe on an open network: a peer that sends and never reads, or starts calls
/// that never end, makes a connection hold a few tens of megabytes. What a tool does with its
/// arguments is the tool's affair.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest message accepted, in bytes. 16 MiB.
    pub frame: usize,
    /// Calls running at the same time; one means strictly in order. 1,024.
    pub concurrency: usize,
    /// Bytes of requests whose calls are running. 8 MiB; one request always fits.
    pub running_bytes: usize,
    /// Bytes of requests that wait for a place to run. 16 MiB; one request always fits.
    pub parked_bytes: usize,
    /// Requests that wait for a place to run. 131,072.
    pub parked_calls: usize,
    /// Bytes of replies that wait to be sent before no further call is started. 4 MiB.
    pub outbound_bytes: usize,
    /// Longest result, encoded, in bytes. 16 MiB; one that is longer is not sent, and the caller is
    /// told so, of a tool by a failed result.
    pub result_bytes: usize,
    /// Longest result that is sent in a message where the transport could also carry it beside,
    /// as HTTP does by a download. 1 MiB.
    pub inline_bytes: usize,
    /// Messages in one batch. 1,000.
    pub batch: usize,
    /// How long one call may run. 10 minutes.
    pub call_time: Duration,
    /// Requests to the client that wait for its answer. 64.
    pub client_requests: usize,
    /// How long the client may take to answer one. 1 minute.
    pub client_request_time: Duration,
    /// How long the client may take where a person or a model answers: sampling and elicitation.
    /// 5 minutes.
    pub answer_time: Duration,
    /// Bytes of answers that a stateless client carries from one round of a request to the next.
    /// 1 MiB.
    pub request_state_bytes: usize,
    /// How long it may take to the next round. 10 minutes.
    pub request_state_time: Duration,
    /// How long running calls may go on once the connection is ending. 30 seconds.
    pub drain_time: Duration,
    /// Subscriptions of a client that may be open at once. 64.
    pub subscriptions: usize,
    /// Resources that a connection may be subscribed to. 10,000.
    pub resource_subscriptions: usize,
    /// Entries on one page of a list. 1,000.
    pub page: usize,
    /// How often a principal may ask, by all of its connections together. As often as it likes.
    pub principal_rate: Option<Rate>,
    /// How often a connection may ask. As often as it likes.
    pub session_rate: Option<Rate>,
    /// Bytes that all connections together may make the server hold. 1 GiB.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame: 16 * 1024 * 1024,
            concurrency: 1024,
            running_bytes: 8 * 1024 * 1024,
            parked_bytes: 16 * 1024 * 1024,
            parked_calls: 128 * 1024,
            outbound_bytes: 4 * 1024 * 1024,
            result_bytes: 16 * 1024 * 1024,
            inline_bytes: 1024 * 1024,
            batch: 1000,
            call_time: Duration::from_secs(10 * 60),
            client_requests: 64,
            client_request_time: Duration::from_secs(60),
            answer_time: Duration::from_secs(5 * 60),
            request_state_bytes: 1024 * 1024,
            request_state_time: Duration::from_secs(10 * 60),
            drain_time: Duration::from_secs(30),
            subscriptions: 64,
            resource_subscriptions: 10_000,
            page: 1000,
            principal_rate: None,
            session_rate: None,
            memory: 1024 * 1024 * 1024,
        }
    }
}
