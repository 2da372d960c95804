//! MCP-Flow 0.1, the protocol of seed 001, without I/O: what goes over a WebTransport session.
//!
//! One stream of frames carries messages ([`frame`]); what is too large for a message comes on a
//! stream of its own behind a [`header`]; what may be lost comes as a [`datagram`].
//! [`negotiation`] settles the encoding, [`ledger`] knows which streams belong to which request,
//! and [`stream_error`] is how one end tells the other that a stream has failed.
//!
//! All numbers are big-endian (WT-010).

pub mod datagram;
pub mod frame;
pub mod header;
pub mod ledger;
pub mod negotiation;
pub mod stream_error;

pub use datagram::{AudioChunk, Channel, Datagram, DatagramFault};
pub use frame::{FrameDecoder, TooLong, write_frame};
pub use header::{HeaderDecoder, StreamHeader, request_number};
pub use ledger::{Arrival, Expired, Ledger, StreamFault};
pub use negotiation::{ClientTransport, ServerTransport, agree};
pub use stream_error::StreamError;

/// What the protocol calls itself in `initialize`.
pub const TYPE: &str = "mcp-flow";
/// The version spoken here.
pub const VERSION: &str = "0.1";
/// Where it is found on a server, by convention (WT-009).
pub const PATH: &str = "/mcp-flow";
