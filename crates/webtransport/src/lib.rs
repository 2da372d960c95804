//! The WebTransport transport, which speaks MCP-Flow 0.1 (seed 001): messages on a control stream,
//! bulk results on execution streams, and progress, logs and audio as datagrams.
//!
//! The path of a session: `listen` accepts a QUIC connection and applies limits, `http3` reads the
//! CONNECT request, `session` authenticates the client, and `control` moves frames between the
//! control stream and a [`Connection`](mcp_flow_server::Connection). `streams` sends bulk results,
//! `datagrams` sends datagrams, and `unsolicited` rejects streams and datagrams that belong to no
//! request. The wire format is in [`proto::webtransport`](mcp_flow_proto::webtransport).

#[cfg(feature = "client")]
pub mod client;
mod control;
mod datagrams;
mod http3;
mod listen;
mod options;
mod pace;
mod pause;
mod quic;
mod session;
mod streams;
mod unsolicited;

pub use datagrams::DatagramCounts;
pub use listen::{BindError, Bound, bind};
pub use mcp_flow_proto::webtransport::PATH;
pub use options::Options;
