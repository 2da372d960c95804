//! Parameters of a client process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The work of one client, until its input ends or it is killed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Assignment {
    pub(crate) kind: Kind,
    /// Unique among the clients of a run, for request values that occur once.
    pub(crate) number: u32,
    pub(crate) seed: u64,
    /// The endpoints that the server printed.
    pub(crate) endpoints: Value,
    /// The directory of this run.
    pub(crate) folder: PathBuf,
}

/// A kind of client: its transport and implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Kind {
    pub(crate) transport: Transport,
    pub(crate) implementation: Implementation,
}

/// A transport and, for HTTP, its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[allow(clippy::enum_variant_names, reason = "these are their names")]
pub(crate) enum Transport {
    /// Its own stdio server.
    Stdio,
    Tcp,
    /// Streamable HTTP of 2026-07-28.
    Stateless,
    /// Streamable HTTP with a session.
    Session,
    /// HTTP+SSE.
    Legacy,
    WebSocket,
    WebTransport,
}

/// The client implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Implementation {
    /// The client library, with all its features.
    Library,
    /// A scripted peer, which sees every message and counts the replies to each request.
    Scripted,
}

impl Assignment {
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The environment variable for the client process.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, serde_json::to_string(self).unwrap())
    }
}

impl Kind {
    /// Every implementation over every transport.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let implementations = [Implementation::Library, Implementation::Scripted];
        let over = move |transport| {
            implementations.map(|implementation| Self { transport, implementation })
        };
        Transport::ALL.into_iter().flat_map(over)
    }
}

impl Transport {
    const ALL: [Self; 7] = [
        Self::Stdio,
        Self::Tcp,
        Self::Stateless,
        Self::Session,
        Self::Legacy,
        Self::WebSocket,
        Self::WebTransport,
    ];
}

const VARIABLE: &str = "MCP_FLOW_SOAK_CLIENT";
