//! What a transport says of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_flow_proto::Encoding;

use crate::bulk::SideChannel;
use crate::datagram::Datagrams;
use crate::extensions::Extensions;
use crate::identity::Principal;
use crate::negotiation::Negotiation;

/// What a transport knows of a connection when it opens.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Which of the connections of this process it is, counted from 1: for telling them apart in
    /// logs. It opens nothing, unlike the identifiers of sessions.
    pub number: u64,
    /// The kind of transport, such as `stdio`.
    pub transport: &'static str,
    /// Whom its calls are made for.
    pub principal: Principal,
    /// How its messages are written, until something else is agreed on.
    pub encoding: Encoding,
    /// What carries results that are too large for a message, if the transport has such a way.
    pub side_channel: Option<Arc<dyn SideChannel>>,
    /// What carries that which may be lost, if the transport has such a way.
    pub datagrams: Option<Arc<dyn Datagrams>>,
    /// What the transport has to agree on with the client, if anything.
    pub negotiation: Option<Arc<dyn Negotiation>>,
    /// Whether the transport keeps messages in the order they were sent in. Over HTTP they may
    /// overtake each other.
    pub in_order: bool,
    /// Whatever else the transport wants handlers to know.
    pub extensions: Extensions,
}

impl ConnectionInfo {
    /// A connection of the local principal that speaks JSON.
    pub fn new(transport: &'static str) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            transport,
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
