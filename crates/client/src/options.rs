//! What can be chosen about a client, with defaults that are safe against any server.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{Implementation, LogLevel};

use crate::signing::Signing;

/// What can be chosen about a client.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Who is calling, as the server is told.
    pub client: Implementation,
    /// Which revisions may be spoken. Defaults to whatever the server does, newest first.
    pub speak: Speak,
    /// How long opening a connection may take, the handshake included. Defaults to 30 s.
    pub connect_limit: Duration,
    /// How long a server may think about whether it knows the newest revision, before the old
    /// handshake is tried beside. Defaults to 2 s.
    pub probe_limit: Duration,
    /// How long a response may take, counted anew whenever the server reports progress. Defaults
    /// to 60 s.
    pub request_limit: Duration,
    /// How long a response may take whatever the server reports. Defaults to one hour.
    pub total_limit: Duration,
    /// How long a person or a model may take to answer a question of the server. Defaults to ten
    /// minutes.
    pub answer_limit: Duration,
    /// How long a message of the server may be, in bytes. Defaults to 64 MiB.
    pub frame_limit: usize,
    /// How many pages of one list are read. Defaults to 1,000.
    pub most_pages: usize,
    /// How many entries of one list are read. Defaults to 100,000.
    pub most_entries: usize,
    /// How many times a server may ask for more input before a request is given up. Defaults to
    /// 64.
    pub most_rounds: usize,
    /// How many questions of the server may be open at once; more are refused. Defaults to 16.
    pub most_questions: usize,
    /// Whether the server is asked now and then if it is still there. Defaults to no.
    pub health: Option<Health>,
    /// How a lost connection is opened again.
    pub backoff: Backoff,
    /// The least severe level of log messages wanted. Defaults to what the server chooses.
    pub log_level: Option<LogLevel>,
    /// How messages are signed, for a server that shares the key (MCP-073). Defaults to not at all.
    pub signing: Option<Signing>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            client: Implementation::new("mcp-flow", env!("CARGO_PKG_VERSION")),
            speak: Speak::Any,
            connect_limit: Duration::from_secs(30),
            probe_limit: Duration::from_secs(2),
            request_limit: Duration::from_secs(60),
            total_limit: Duration::from_secs(3600),
            answer_limit: Duration::from_secs(600),
            frame_limit: 64 << 20,
            most_pages: 1000,
            most_entries: 100_000,
            most_rounds: 64,
            most_questions: 16,
            health: None,
            backoff: Backoff::default(),
            log_level: None,
            signing: None,
        }
    }
}

/// Which revisions a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speak {
    /// Whatever the server does: the newest statelessly, or else by a handshake.
    Any,
    /// Only this one, without looking for another.
    Only(Revision),
}

/// How a server is watched (MCP-070).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// How often it is asked, and how long it may take to answer.
    pub interval: Duration,
    /// After how many missed answers the connection counts as lost.
    pub misses: u32,
}

impl Default for Health {
    fn default() -> Self {
        Self { interval: Duration::from_secs(15), misses: 2 }
    }
}

/// How long to wait before trying again, and how often (INT-089, MCP-069).
///
/// ```
/// use std::time::Duration;
/// use mcp_flow_client::Backoff;
///
/// let backoff = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1), ..Backoff::default() };
/// let middles: Vec<_> = (0..5).map(|attempt| backoff.delay(attempt, 0.5).as_millis()).collect();
/// assert_eq!(middles, [100, 200, 400, 800, 1000]);
/// // Jitter takes away or adds up to a quarter, so that clients do not come back all at once.
/// assert_eq!(backoff.delay(0, 0.0).as_millis(), 75);
/// assert_eq!(backoff.delay(0, 1.0).as_millis(), 125);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay. Doubles from attempt to attempt. Defaults to 250 ms.
    pub first: Duration,
    /// The longest delay. Defaults to 30 s.
    pub most: Duration,
    /// How many attempts are made before a lost connection is given up, until it is asked for
    /// again. Defaults to 8.
    pub attempts: u32,
    /// How many attempts are made for the very first connection. Defaults to 1: a server that was
    /// never there is reported at once. One that answers and is only busy (429, 502 to 504) is tried
    /// as often as a lost connection.
    pub first_attempts: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(250),
            most: Duration::from_secs(30),
            attempts: 8,
            first_attempts: 1,
        }
    }
}

impl Backoff {
    /// The delay after an attempt that failed, the first being 0. `random` is from 0 to 1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doubled = self.first.saturating_mul(2_u32.saturating_pow(attempt.min(30)));
        doubled.min(self.most).mul_f64(0.75 + random.clamp(0.0, 1.0) / 2.0)
    }
}
