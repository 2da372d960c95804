//! The Model Context Protocol without I/O: frames, messages, model types, errors and revisions.
//!
//! A message passes through the modules in this order: [`frame`] finds its end, [`message`] decodes
//! the JSON-RPC envelope, [`raw`] keeps its params undecoded until a handler asks for them,
//! [`model`] has the types that handlers decode. [`error`] is the error table, [`revision`] lists
//! how the five protocol revisions differ, and [`webtransport`] adds the frames, streams and
//! datagrams of MCP-Flow.
//!
//! Nothing here waits, spawns, reads a clock or draws random numbers.

mod cbor;
pub mod decode_error;
pub mod error;
mod excerpt;
pub mod frame;
pub mod id;
mod json;
pub mod message;
pub mod method;
pub mod model;
pub mod raw;
pub mod revision;
pub mod secrets;
pub mod text;
pub mod webtransport;
pub mod write;

pub use decode_error::DecodeError;
pub use error::RpcError;
pub use excerpt::excerpt;
pub use id::RequestId;
pub use message::{Incoming, InvalidMessage, Message, Notification, Request, Response};
pub use raw::{Encoding, OwnedRaw, Params, Raw, ValueKind};
pub use revision::Revision;
