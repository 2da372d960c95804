//! What a transport agrees on with its client in `initialize`, beside the revision.

use std::fmt;

use mcp_flow_proto::{Encoding, Params, RpcError};
use serde_json::Value;

/// A transport's part in the handshake.
///
/// Put into [`ConnectionInfo::negotiation`](crate::ConnectionInfo::negotiation) by transports that
/// have something to agree on.
pub trait Negotiation: Send + Sync + fmt::Debug + 'static {
    /// Reads what the client says in the params of `initialize`, and decides. An error answers the
    /// request; the client may try again.
    fn agree(&self, params: Params<'_>) -> Result<Agreement, RpcError>;
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// How every message is written after the result of `initialize`.
    pub encoding: Encoding,
    /// What the result says of it, as its member `transport`.
    pub transport: Value,
}
