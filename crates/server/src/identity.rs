//! The identity of callers: the principal, which is verified, and the peer, which describes itself.
//!
//! Principals and verifiers are those of `mcp-flow-principal`.

use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{ClientCapabilities, Implementation};

pub use mcp_flow_principal::{
    Principal, ProofContext, ProofRejected, ProofRequirements, TokenRejected, TokenRequirements,
    Verification, Verifier, check_name,
};

/// The client's own description: for display and for choosing features, never for authorization
/// (PAT-011).
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// The revision its requests are written in.
    pub revision: Revision,
    /// Its name and version, if it gave them.
    pub client: Option<Implementation>,
    /// Its capabilities.
    pub capabilities: ClientCapabilities,
}

impl Peer {
    /// The client's name, or "unknown" (C-22).
    pub fn name(&self) -> &str {
        self.client.as_ref().map_or("unknown", |client| &client.name)
    }
}
