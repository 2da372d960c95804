//! Description of a connection by its transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_flow_proto::Encoding;

use crate::bulk::SideChannel;
use crate::datagram::Datagrams;
use crate::extensions::Extensions;
use crate::identity::Principal;
use crate::negotiation::Negotiation;

/// A connection, as its transport describes it when it opens.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Number of the connection in this process, from 1, for logs. It grants nothing, unlike the
    /// identifiers of sessions.
    pub number: u64,
    /// The kind of transport, such as `stdio`.
    pub transport: &'static str,
    /// The id of the transport session (`Mcp-Session-Id`), if there is one.
    pub session: Option<Arc<str>>,
    /// The principal its calls are made for.
    pub principal: Principal,
    /// The encoding of its messages, until another is negotiated.
    pub encoding: Encoding,
    /// Delivers payloads outside messages, if the transport can.
    pub side_channel: Option<Arc<dyn SideChannel>>,
    /// Sends unreliable datagrams, if the transport can.
    pub datagrams: Option<Arc<dyn Datagrams>>,
    /// Negotiates transport parameters with the client, if there are any.
    pub negotiation: Option<Arc<dyn Negotiation>>,
    /// Set if the transport preserves the order of messages. Over HTTP they may overtake each
    /// other.
    pub in_order: bool,
    /// Values of the transport for handlers.
    pub extensions: Extensions,
}

impl ConnectionInfo {
    /// A connection of the local principal, encoded as JSON.
    pub fn new(transport: &'static str) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            transport,
            session: None,
            principal: Principal::local(),
            encoding: Encoding::Json,
            side_channel: None,
            datagrams: None,
            negotiation: None,
            in_order: true,
            extensions: Extensions::default(),
        }
    }
}
