//! MCP-Flow 0.1 (seed 001) without I/O: the protocol spoken over a WebTransport session.
//!
//! The control stream carries length-prefixed messages ([`frame`]). Bulk content uses execution
//! streams, which begin with a [`header`]. Progress, audio and logs may use a [`datagram`].
//! [`negotiation`] selects the encoding, [`ledger`] matches streams to requests, and
//! [`stream_error`] reports a failed stream to the peer.
//!
//! All numbers are big-endian (WT-010).

pub mod datagram;
pub mod frame;
pub mod header;
pub mod ledger;
pub mod negotiation;
pub mod stream_error;

pub use datagram::{AudioChunk, Datagram, DatagramChannel, DatagramDecodeError};
pub use frame::{FrameDecoder, TooLong, write_frame};
pub use header::{HeaderDecoder, StreamHeader, request_number};
pub use ledger::{Arrival, Expired, Ledger, StreamRejection};
pub use negotiation::{ClientTransport, ServerTransport, negotiate_encoding};
pub use stream_error::StreamError;

/// The transport type announced in `initialize`.
pub const TYPE: &str = "mcp-flow";
/// The supported version of MCP-Flow.
pub const VERSION: &str = "0.1";
/// The conventional URL path (WT-009).
pub const PATH: &str = "/mcp-flow";
