//! The Model Context Protocol without I/O.
//!
//! Follow a message through the modules: [`frame`] finds where it ends, [`message`] says what it
//! is, [`raw`] keeps its params undecoded until a handler asks, [`model`] holds the types handlers
//! ask for, [`error`] what goes wrong, and [`revision`] how the five revisions differ.
//! [`webtransport`] is what one transport adds: frames of its own, streams and datagrams.
//!
//! Nothing here waits, spawns, looks at a clock or draws random numbers.

mod cbor;
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
pub mod text;
pub mod webtransport;
pub mod write;

pub use error::RpcError;
pub use excerpt::excerpt;
pub use id::RequestId;
pub use message::{Incoming, Message, Notification, Refusal, Request, Response};
pub use raw::{DecodeError, Encoding, Kind, OwnedRaw, Params, Raw};
pub use revision::Revision;
