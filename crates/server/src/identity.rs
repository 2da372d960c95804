//! Who is calling.

use std::fmt;
use std::sync::Arc;

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{ClientCapabilities, Implementation};

/// Whom a call is made for, as the server has established it.
///
/// Nothing a client says of itself makes a principal; a transport does, from credentials it has
/// checked. Without any, callers on one's own machine are all the same principal, `local` (C-53).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// A principal by name.
    pub fn named(name: &str) -> Self {
        Self(name.into())
    }

    /// Everyone on this machine who was not asked for credentials.
    pub fn local() -> Self {
        Self::named("local")
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a client says of itself: good for display and for choosing a form, never for rights
/// (PAT-011).
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// The revision its requests are written in.
    pub revision: Revision,
    /// Its name and version, if it gave them.
    pub client: Option<Implementation>,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

impl Peer {
    /// The client's name, or "unknown" (C-22).
    pub fn name(&self) -> &str {
        self.client.as_ref().map_or("unknown", |client| &client.name)
    }
}
