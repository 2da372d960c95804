//! What a client is told when it is started.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one client is to do, until its input ends or it is killed.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Assignment {
    pub(crate) kind: Kind,
    /// Different for every client of a run, for numbers that nobody else uses.
    pub(crate) number: u32,
    pub(crate) seed: u64,
    /// Where the server is, as it has said itself.
    pub(crate) places: Value,
    /// Where everything of this run is.
    pub(crate) folder: PathBuf,
}

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Kind {
    pub(crate) transport: Transport,
    pub(crate) manner: Manner,
}

/// What its messages go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[allow(clippy::enum_variant_names, reason = "these are their names")]
pub(crate) enum Transport {
    /// A server of its own, over pipes.
    Stdio,
    Tcp,
    /// Streamable HTTP as 2026-07-28 has it.
    Stateless,
    /// Streamable HTTP with a session.
    Session,
    /// HTTP+SSE.
    Legacy,
    WebSocket,
    WebTransport,
}

/// Who checks the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Manner {
    /// Our own client, with all it can do.
    Typed,
    /// A scripted peer, which sees every message and counts the replies to each request.
    Counted,
}

impl Assignment {
    pub(crate) fn from_environment() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The environment of the process that is to do this.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        (VARIABLE, serde_json::to_string(self).unwrap())
    }
}

impl Kind {
    /// Every manner over every transport.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let manners = [Manner::Typed, Manner::Counted];
        let over = move |transport| manners.map(|manner| Self { transport, manner });
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
