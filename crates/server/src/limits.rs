//! Limits on what clients may ask of the server.

use std::time::Duration;

use mcp_flow_rate::Rate;

/// Limits on what clients can make the server hold or do, per connection unless stated otherwise.
///
/// The defaults are safe on an open network: a peer that sends and never reads, or starts calls
/// that never end, makes a connection hold a few tens of megabytes. Memory that a tool allocates
/// for its arguments is not counted.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest message accepted, in bytes. 16 MiB.
    pub frame: usize,
    /// Calls running at the same time; one means strictly in order. 1,024.
    pub concurrency: usize,
    /// Bytes of requests whose calls are running. 8 MiB; one request always fits.
    pub running_bytes: usize,
    /// Bytes of requests waiting for a permit to run. 16 MiB; one request always fits.
    pub parked_bytes: usize,
    /// Requests waiting for a permit to run. 131,072.
    pub parked_calls: usize,
    /// Bytes of unsent replies above which no further call is started. 4 MiB.
    pub outbound_bytes: usize,
    /// Longest encoded result, in bytes. 16 MiB; a longer one is not sent, and the caller gets an
    /// error, from a tool a failed result.
    pub result_bytes: usize,
    /// Longest result sent inline where the transport has a side channel, as HTTP has downloads. 1
    /// MiB.
    pub inline_bytes: usize,
    /// Messages in one batch. 1,000.
    pub batch: usize,
    /// Time limit of one call. 10 minutes.
    pub call_time: Duration,
    /// Outstanding requests to the client. 64.
    pub client_requests: usize,
    /// Time limit for the client to respond to one. 1 minute.
    pub client_request_time: Duration,
    /// Time limit for the client to respond where a person or a model answers: sampling and
    /// elicitation. 5 minutes.
    pub answer_time: Duration,
    /// Bytes of answers that a stateless client carries from one round of a request to the next. 1
    /// MiB.
    pub request_state_bytes: usize,
    /// Time limit until the next round of a request. 10 minutes.
    pub request_state_time: Duration,
    /// Time for running calls to finish once the connection is closing. 30 seconds.
    pub drain_time: Duration,
    /// Open `subscriptions/listen` requests. 64.
    pub subscriptions: usize,
    /// Resource subscriptions of a connection. 10,000.
    pub resource_subscriptions: usize,
    /// Entries on one page of a list. 1,000.
    pub page: usize,
    /// Request rate of a principal over all its connections. Unlimited.
    pub principal_rate: Option<Rate>,
    /// Request rate of a connection. Unlimited.
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
