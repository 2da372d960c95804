//! The HTTP transports, all on one port: Streamable HTTP at `/mcp`, legacy HTTP+SSE at `/sse` and
//! `/messages`, WebSocket at `/ws`, and what operators ask for.
//!
//! The path of a request: `listen` accepts a connection and bounds it, `service` finds the room for
//! a request that `framing` finds clear and `guard` has let in, `streamable` and `legacy` turn bodies into frames for a
//! [`Connection`](mcp_flow_server::Connection) and its output into answers. `sessions` keeps what
//! outlives a request, `stream` what can be read again after a broken connection, `downloads` what
//! is too large for a message. [`client`] is the other end.

#![allow(
    clippy::result_large_err,
    reason = "a refusal is the answer itself, handed up a few calls and sent"
)]

mod answer;
mod body;
#[cfg(feature = "client")]
pub mod client;
mod cors;
mod departures;
mod downloads;
mod framing;
mod guard;
mod held;
mod legacy;
mod listen;
mod metadata;
mod metrics;
mod options;
mod pages;
mod patience;
mod rooms;
mod service;
mod session;
mod sessions;
mod sse;
mod stream;
mod streamable;
mod streams;
mod tls;
mod websocket;

pub use listen::{BindError, Bound, bind};
pub use mcp_flow_server::{StaticTokens, TokenError, Verifier};
pub use mcp_flow_tls::{Tls, TlsError};
pub use options::Options;
pub use pages::{Page, Pages};
