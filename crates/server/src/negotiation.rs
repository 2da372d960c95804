//! Transport parameters negotiated in `initialize`, besides the revision.

use std::fmt;

use mcp_flow_proto::{Encoding, Params, RpcError};
use serde_json::Value;

/// A transport's part in the handshake.
///
/// Set as [`ConnectionInfo::negotiation`](crate::ConnectionInfo::negotiation) by transports that
/// negotiate parameters.
pub trait Negotiation: Send + Sync + fmt::Debug + 'static {
    /// Negotiates by the params of `initialize`. An error rejects the request; the client may try
    /// again.
    fn agree(&self, params: Params<'_>) -> Result<Agreement, RpcError>;
}

/// The negotiated parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The encoding of every message after the result of `initialize`.
    pub encoding: Encoding,
    /// The member `transport` of the result.
    pub transport: Value,
}
