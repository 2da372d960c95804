//! Model Context Protocol client.
//!
//! Follow a request: a typed method of [`Client`] (in `calls`) makes a [`Request`], which opens the
//! `connection` if needed (`connect`, `handshake`), sends one message over the [`transport`] and
//! waits for its response. The [`Host`] answers the server's requests meanwhile. [`interaction`]
//! runs sessions of flows, [`approval`] applies approval policies.
//!
//! All input from servers is untrusted: bounded, validated where it arrives, and shown to users
//! only through [`sanitize`].

pub mod approval;
pub mod authorizer;
mod calls;
mod client;
mod connection;
pub mod error;
pub mod event;
pub mod host;
pub mod interaction;
mod options;
pub mod sanitize;
pub mod transport;

pub use calls::arguments::check_arguments;
pub use calls::completion::{Completion, CompletionReference};
pub use calls::content::ContentBlock;
pub use calls::pages::PagedList;
pub use calls::prompts::{PromptOutcome, ReceivedMessage};
pub use calls::request::{Request, RequestParams, RunningRequest};
pub use calls::resources::{ReadContents, ReadOutcome};
pub use calls::subscription::{ChangeFilter, ChangeStream, ServerChange};
pub use calls::tasks::{DetachedCall, TaskRequestParams};
pub use calls::tools::{CallToolParams, ToolOutcome};
pub use client::{Client, ClientBuilder};
pub use connection::handshake::ServerInfo;
pub use connection::signing::{SignedChannel, Signing};
pub use error::{Error, ErrorKind, ServerError};
pub use event::{ClientEvent, RequestProgress};
pub use host::Host;
pub use mcp_flow_proto::model;
pub use mcp_flow_proto::{OwnedRaw, Raw, Revision};
pub use mcp_flow_seal as seal;
pub use options::{Backoff, ClientOptions, Health, RevisionPolicy};
