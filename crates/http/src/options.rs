//! How the HTTP transports behave.

use std::time::Duration;

/// Bounds and habits of the HTTP transports. The defaults are safe on an open network.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections open at the same time; more are refused. 20,000.
    pub connections: usize,
    /// Sessions open at the same time; past it the longest idle one is given up. 10,000.
    pub sessions: usize,
    /// How long a session without an open stream may be idle. 30 minutes (C-47).
    pub session_idle: Duration,
    /// How long a client may take to send the head of a request. 10 seconds.
    pub head_time: Duration,
    /// How long a client may take to send the next piece of a body. 30 seconds.
    pub body_time: Duration,
    /// How long a client may leave unread what is sent to it. 1 minute.
    pub unread_time: Duration,
    /// How often a quiet stream shows that it is alive. 15 seconds.
    pub keep_alive: Duration,
    /// Bytes of a session's streams that are kept to be read again. 1 MiB.
    pub replay_bytes: usize,
    /// Downloads that wait to be fetched, for one principal; past it the oldest is given up. 64.
    pub downloads: usize,
    /// How long a download may wait to be fetched. 10 minutes.
    pub download_life: Duration,
    /// Where clients find the server, such as `https://flow.example/tools`, if that is not the host
    /// they name: for links to downloads behind a proxy.
    pub public_url: Option<String>,
    /// Host names the server answers to besides those of its own machine. Empty means any, unless
    /// the server listens on a loopback address.
    pub hosts: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 20_000,
            sessions: 10_000,
            session_idle: Duration::from_secs(30 * 60),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            unread_time: Duration::from_secs(60),
            keep_alive: Duration::from_secs(15),
            replay_bytes: 1024 * 1024,
            downloads: 64,
            download_life: Duration::from_secs(10 * 60),
            public_url: None,
            hosts: Vec::new(),
        }
    }
}
