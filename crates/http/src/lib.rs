//! The HTTP server transports, all on one port: Streamable HTTP at `/mcp`, legacy HTTP+SSE at `/sse`
//! and `/messages`, WebSocket at `/ws`, downloads, and the operator endpoints.
//!
//! A request passes these stages: [`bind`]'s listener accepts the connection (`listen`); `service`
//! checks the head (`head`), the host and the origin (`origin`), authenticates the caller
//! (`authentication`) and routes the request to its endpoint: a `transport`, `downloads` or an
//! `operator` endpoint. `limits` bounds what one client can hold: time, memory and connections.
//! `cluster` forwards requests to other nodes, if several serve the same sessions.
//!
//! The transports feed frames to a [`Connection`](mcp_flow_server::Connection) and write its output
//! as responses; MCP itself is not known here. The client is the crate `mcp-flow-http-client`.

#![allow(
    clippy::result_large_err,
    reason = "a rejection is the response itself, passed up a few calls and sent"
)]

mod authentication;
mod cluster;
mod downloads;
mod endpoint;
mod head;
mod limits;
mod listen;
mod operator;
mod options;
mod origin;
mod resource_metadata;
mod response;
mod server_card;
mod service;
mod tls;
mod transport;

pub use cluster::{ClusterFuture, ClusterNodes, NodeRequest, NodeUrl, NotSent, RelayedResponse};
pub use listen::{BindError, Bound, bind};
#[cfg(feature = "client")]
pub use mcp_flow_http_client as client;
pub use mcp_flow_server::Verifier;
pub use mcp_flow_tls::{Tls, TlsError};
pub use operator::pages::{Page, StaticPages, VisitedPages};
pub use options::Options;
pub use server_card::{BadServerCard, ServerCard};
