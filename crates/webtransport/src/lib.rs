//! The WebTransport transport, which speaks MCP-Flow 0.1 (seed 001): messages on a control stream,
//! results of any size on execution streams beside it, and what may be lost as datagrams.
//!
//! The path of a session: `listen` accepts a QUIC connection and bounds it, `http3` reads what its
//! client asks for, `session` lets it in or not, `control` moves frames between the control stream and a
//! [`Connection`](mcp_flow_server::Connection). `streams` is what carries results too large for a
//! message, `datagrams` what carries that which may be lost, `strangers` deals with what a client
//! opens or sends that nobody asked for. How it all looks on the wire is
//! [`proto::webtransport`](mcp_flow_proto::webtransport).

#[cfg(feature = "client")]
pub mod client;
mod control;
mod datagrams;
mod gate;
mod http3;
mod http3_session;
mod listen;
mod options;
mod pace;
mod quic;
mod session;
mod strangers;
mod streams;

pub use datagrams::DatagramCounts;
pub use listen::{BindError, Bound, bind};
pub use mcp_flow_proto::webtransport::PATH;
pub use options::Options;
