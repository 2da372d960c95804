//! Client options: protocol revision, timeouts, limits, reconnection and signing.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{ClientExtensions, Implementation, LogLevel};

use crate::connection::signing::Signing;
use crate::transport::Spool;

/// Options of a client. The defaults are safe with untrusted servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// Name and version of the client, sent to the server.
    pub client: Implementation,
    /// Extensions of the protocol that the client declares, besides those of its host. Defaults to
    /// none.
    pub extensions: ClientExtensions,
    /// Maximum size of the results kept for as long as the server allows, in bytes; 0 keeps none.
    /// Defaults to 8 MiB.
    pub cache_bytes: usize,
    /// Protocol revisions to negotiate. Defaults to the newest that the server supports.
    pub revision: RevisionPolicy,
    /// Timeout for connecting, including the handshake. Defaults to 30 s.
    pub connect_timeout: Duration,
    /// Time to wait for the reply to `server/discover` before `initialize` is sent as well.
    /// Defaults to 2 s.
    pub probe_timeout: Duration,
    /// Timeout for a response; each progress notification restarts it. Defaults to 60 s.
    pub request_timeout: Duration,
    /// Timeout for a response regardless of progress, and for following the task that a call continues
    /// as, which goes on. Defaults to one hour.
    pub total_timeout: Duration,
    /// Timeout for the host to answer a request of the server, such as an elicitation. Defaults to
    /// ten minutes.
    pub answer_timeout: Duration,
    /// Maximum size of a message from the server, in bytes. Defaults to 64 MiB.
    pub frame_limit: usize,
    /// Temporary files for the large texts and bytes of results that are longer than
    /// [`frame_limit`](Self::frame_limit), over stdio and HTTP. Tokens stand in their places, for
    /// [`Spool::take`]. Defaults to none: such results fail.
    pub spool: Option<Arc<Spool>>,
    /// Maximum number of pages read of one list. Defaults to 1,000.
    pub max_pages: usize,
    /// Maximum number of entries read of one list. Defaults to 100,000.
    pub max_entries: usize,
    /// Maximum number of times that one request, or the task it continues as, may ask for input.
    /// Defaults to 64.
    pub max_rounds: usize,
    /// Accept tasks as results of tool calls (2026-07-28), and follow them to their end. Defaults to
    /// true.
    pub tasks: bool,
    /// Maximum number of concurrent requests from the server; more are rejected. Defaults to 16.
    pub max_server_requests: usize,
    /// Limit on the messages that the server sends within ten seconds while no request is pending. Beyond
    /// it the connection is closed. Defaults to 100,000.
    pub max_unsolicited: u32,
    /// Validate structured content of tools against their output schemas. Defaults to true. If the
    /// tools have not been listed yet, the first call lists them.
    pub validate_output: bool,
    /// Health checks by ping. Defaults to none.
    pub health: Option<Health>,
    /// Backoff between attempts to connect.
    pub backoff: Backoff,
    /// Minimum level of the server's log messages. Defaults to the server's choice.
    pub log_level: Option<LogLevel>,
    /// Keys for message signing (MCP-073). Defaults to none: messages are not signed.
    pub signing: Option<Signing>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            client: Implementation::new("mcp-flow", env!("CARGO_PKG_VERSION")),
            extensions: ClientExtensions::default(),
            cache_bytes: 8 << 20,
            revision: RevisionPolicy::Any,
            connect_timeout: Duration::from_secs(30),
            probe_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(60),
            total_timeout: Duration::from_secs(3600),
            answer_timeout: Duration::from_secs(600),
            frame_limit: 64 << 20,
            spool: None,
            max_pages: 1000,
            max_entries: 100_000,
            max_rounds: 64,
            tasks: true,
            max_server_requests: 16,
            max_unsolicited: 100_000,
            validate_output: true,
            health: None,
            backoff: Backoff::default(),
            log_level: None,
            signing: None,
        }
    }
}

/// Protocol revisions that a client negotiates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevisionPolicy {
    /// The newest revision that the server supports: stateless if it can, else with a handshake.
    Any,
    /// This revision only.
    Only(Revision),
}

/// Health checks by ping (MCP-070).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Interval between pings, and the timeout of each.
    pub interval: Duration,
    /// Number of consecutive missed replies after which the connection is closed.
    pub misses: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15), misses: 2 }
    }
}

/// Exponential backoff with jitter (INT-089, MCP-069).
///
/// ```
/// use std::time::Duration;
/// use mcp_flow_client::Backoff;
///
/// let backoff = Backoff { initial: Duration::from_millis(100), max: Duration::from_secs(1), ..Backoff::default() };
/// let middles: Vec<_> = (0..5).map(|attempt| backoff.delay(attempt, 0.5).as_millis()).collect();
/// assert_eq!(middles, [100, 200, 400, 800, 1000]);
/// // Jitter of up to a quarter either way keeps clients from reconnecting all at once.
/// assert_eq!(backoff.delay(0, 0.0).as_millis(), 75);
/// assert_eq!(backoff.delay(0, 1.0).as_millis(), 125);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First delay, doubled after each attempt. Defaults to 250 ms.
    pub initial: Duration,
    /// Longest delay. Defaults to 30 s.
    pub max: Duration,
    /// Attempts to reopen a lost connection; the next request starts over. Defaults to 8.
    pub attempts: u32,
    /// Attempts to open the first connection. Defaults to 1, so that an unreachable server is
    /// reported at once. A busy server (429, 502 to 504) is tried `attempts` times.
    pub initial_attempts: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(250),
            max: Duration::from_secs(30),
            attempts: 8,
            initial_attempts: 1,
        }
    }
}

impl Backoff {
    /// Delay after a failed attempt, counted from 0. `random` is between 0 and 1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doubled = self.initial.saturating_mul(2_u32.saturating_pow(attempt.min(30)));
        doubled.min(self.max).mul_f64(0.75 + random.clamp(0.0, 1.0) / 2.0)
    }
}
