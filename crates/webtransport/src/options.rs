//! How the WebTransport transport behaves.

use std::time::Duration;

/// Bounds and habits of the WebTransport transport. The defaults are safe on an open network.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections open at the same time; more are refused. 10,000.
    pub connections: usize,
    /// Time that a client may take to shake hands, to ask for a session, to open its control stream
    /// and to send its first request, such as `initialize`. 10 seconds each.
    pub handshake_time: Duration,
    /// How long a path may be silent before the connection is given up. 30 seconds.
    pub idle_time: Duration,
    /// Execution streams of one session that are open at the same time. 32.
    pub streams: u32,
    /// Results that may wait until a stream is free; more are refused. 32.
    pub waiting_streams: usize,
    /// How long a result may wait for that. 30 seconds.
    pub waiting_time: Duration,
    /// How long a client may leave an execution stream unread. 10 minutes.
    pub unread_time: Duration,
    /// How long messages may be held up by streams that are not read, before those are given up.
    /// 2 seconds.
    pub stall_time: Duration,
    /// Whether datagrams are sent, to clients that take them.
    pub datagrams: bool,
    /// Host names the server answers to besides those of its own machine. Empty means any, unless
    /// the server listens on a loopback address.
    pub hosts: Vec<String>,
    /// Origins, such as `https://app.example`, whose pages may speak to the server from a browser.
    /// Pages the server could have served itself always may, all others may not.
    pub origins: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 10_000,
            handshake_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(30),
            streams: 32,
            waiting_streams: 32,
            waiting_time: Duration::from_secs(30),
            unread_time: Duration::from_secs(10 * 60),
            stall_time: Duration::from_secs(2),
            datagrams: true,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}
