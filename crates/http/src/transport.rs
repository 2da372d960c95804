//! The MCP transports over HTTP, and the session state they share.

pub(crate) mod event_log;
pub(crate) mod legacy_sse;
pub(crate) mod posted;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod sse;
pub(crate) mod streamable;
pub(crate) mod websocket;
