//! Configuration of the HTTP listener.

use std::time::Duration;

use crate::server_card::ServerCard;

/// Limits, timeouts and access rules of the HTTP transports. The defaults are safe on an open
/// network.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limit on open connections; more are refused. 20,000.
    pub max_connections: usize,
    /// Limit on open sessions; past it the longest idle one is evicted. 10,000.
    pub max_sessions: usize,
    /// Idle time after which a session without an open stream ends. 30 minutes (C-47).
    pub session_idle_timeout: Duration,
    /// Time limit for receiving the head of a request. 10 seconds.
    pub head_timeout: Duration,
    /// Time limit for receiving the next chunk of a request body. 30 seconds.
    pub body_timeout: Duration,
    /// Time after which a client that reads nothing is disconnected. 1 minute.
    pub write_timeout: Duration,
    /// Interval of keep-alive comments on quiet event streams, and of pings. 15 seconds.
    pub keep_alive: Duration,
    /// Bytes of events kept per session for SSE resumption. 1 MiB.
    pub replay_bytes: usize,
    /// Limit on pending downloads per principal; past it the oldest is evicted. 64.
    pub max_downloads: usize,
    /// Time until a pending download expires. 10 minutes.
    pub download_lifetime: Duration,
    /// URL under which clients reach the server, such as `https://flow.example/tools`, if a proxy
    /// changes the host or path: used in links of flows, download links and metadata.
    pub public_url: Option<String>,
    /// Card that describes the server at `/mcp/server-card`, with a catalog at
    /// `/.well-known/ai-catalog.json`, both public. Needs `public_url`. None.
    pub server_card: Option<ServerCard>,
    /// Allowed values of the Host header, besides the names of the local machine. Empty allows any,
    /// unless the server listens on a loopback address.
    pub hosts: Vec<String>,
    /// Allowed origins of browser pages, such as `https://app.example`. Same-origin pages are always
    /// allowed, all others are rejected.
    pub origins: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            max_sessions: 10_000,
            session_idle_timeout: Duration::from_secs(30 * 60),
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            replay_bytes: 1024 * 1024,
            max_downloads: 64,
            download_lifetime: Duration::from_secs(10 * 60),
            public_url: None,
            server_card: None,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}
