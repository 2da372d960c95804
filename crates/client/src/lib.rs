//! Model Context Protocol client.
//!
//! Follow a request: a typed method of [`Client`] (`tools`, `resources`, `prompts`, …) makes a
//! [`Request`], which opens the connection if needed (`connect`, `handshake`), sends one message over
//! the [`transport`] and waits for its response (`link`). The [`Host`] answers the server's requests
//! meanwhile. [`interaction`] runs sessions of flows, [`guard`] applies approval policies.
//!
//! All input from servers is untrusted: bounded, validated where it arrives, and shown to users only
//! through [`neutral`].

mod arguments;
pub mod authorizer;
mod carried;
mod client;
mod completion;
mod connect;
mod content;
mod era;
pub mod error;
pub mod event;
pub mod guard;
mod handshake;
pub mod host;
pub mod interaction;
mod link;
mod logging;
mod mirrored;
pub mod neutral;
mod options;
mod pages;
mod pending;
mod prompts;
mod request;
mod resources;
mod rounds;
mod serve;
mod signing;
mod subscription;
mod tools;
pub mod transport;

pub use arguments::check_arguments;
pub use client::{Client, ClientBuilder};
pub use completion::{Completion, CompletionReference};
pub use content::Piece;
pub use error::{Error, ErrorKind, ServerError};
pub use event::{Event, Progress};
pub use handshake::ServerInfo;
pub use host::Host;
pub use mcp_flow_proto::model;
pub use mcp_flow_proto::{OwnedRaw, Raw, Revision};
pub use mcp_flow_seal as seal;
pub use options::{Backoff, Health, Options, Speak};
pub use pages::Pages;
pub use prompts::{PromptOutcome, ReceivedMessage};
pub use request::{Params, Progressing, Request};
pub use resources::{Contents, ReadOutcome};
pub use signing::{SignedChannel, Signing};
pub use subscription::{Change, Subscription, Watched};
pub use tools::{CallParams, ToolOutcome};
