//! Limits and timeouts of the WebTransport transport.

use std::time::Duration;

/// Limits and timeouts of the WebTransport transport. The defaults are safe on an open network.
#[derive(Clone, Debug)]
pub struct Options {
    /// Maximum number of open connections; further ones are rejected. 10,000.
    pub max_connections: usize,
    /// Time limit for each step of the handshake: TLS, CONNECT, control stream, and first request,
    /// such as `initialize`. 10 seconds each.
    pub handshake_timeout: Duration,
    /// Idle timeout of a connection. 30 seconds.
    pub idle_timeout: Duration,
    /// Maximum number of open execution streams per session. 32.
    pub max_streams: u32,
    /// Maximum number of results waiting for an execution stream; further ones are rejected. 32.
    pub max_waiting_streams: usize,
    /// Time limit for a result to wait for an execution stream. 30 seconds.
    pub waiting_timeout: Duration,
    /// Time limit for a client to read from an execution stream. 10 minutes.
    pub write_timeout: Duration,
    /// Time for which unread streams may block messages before they are given up. 2 seconds.
    pub stall_timeout: Duration,
    /// Sends datagrams to clients that accept them.
    pub datagrams: bool,
    /// Accepted host names besides those of the machine itself. Empty means any, unless the server
    /// listens on a loopback address.
    pub hosts: Vec<String>,
    /// Origins, such as `https://app.example`, whose pages may connect from a browser. Same-origin
    /// pages always may, all others may not.
    pub origins: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            max_streams: 32,
            max_waiting_streams: 32,
            waiting_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10 * 60),
            stall_timeout: Duration::from_secs(2),
            datagrams: true,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}
