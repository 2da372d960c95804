//! The MCP server behind every transport and revision.
//!
//! The path of a call through this crate: a transport hands a frame to its [`Connection`], which
//! decodes it and dispatches the message (`connection::dispatch`); the [`Router`](router::Router)
//! finds the handler; the handler gets a [`Context`] and returns an outcome; `connection::call`
//! completes the call, and the reply leaves through the connection's bounded queue
//! (`connection::outbound`).
//!
//! ```
//! use mcp_flow_server::{Context, Server, Tool};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize)]
//! struct Pair { a: f64, b: f64 }
//!
//! let sum = Tool::builder("calculate_sum")
//!     .description("Calculate the sum of two numbers")
//!     .input_schema(json!({
//!         "type": "object",
//!         "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
//!         "required": ["a", "b"]
//!     }))
//!     .quick(|_: &Context, Pair { a, b }: Pair| a + b)
//!     .unwrap();
//!
//! let server = Server::builder("sums", "1.0.0").tools(sum).build().unwrap();
//! ```

pub mod access;
pub mod ask;
pub mod bulk;
pub mod catalog_source;
mod collection;
pub mod completion;
pub mod connection;
mod connections;
pub mod content;
pub mod context;
pub mod datagram;
pub mod drain;
pub mod endpoint;
pub mod event;
mod extensions;
pub mod handler;
pub mod identity;
pub mod input;
mod limits;
pub mod load;
mod methods;
pub mod negotiation;
pub mod observe;
mod output_filter;
pub mod prompt;
mod registry;
pub mod resource;
pub mod revision;
pub mod router;
mod server;
mod shared_notice;
mod signing;
mod tap;
pub mod task;
pub mod tool;

pub use ask::{AskError, Elicited, Form};
pub use bulk::Bulk;
pub use catalog_source::{CatalogSource, Unlisted};
pub use connection::{Connection, ConnectionEnd, ConnectionInfo, Segment};
pub use context::Context;
pub use event::{ConnectionEvent, Hook, Veto};
pub use extensions::Extensions;
pub use handler::{Handler, Outcome, Payload, Reply};
pub use identity::{Peer, Principal, Verifier};
pub use limits::Limits;
pub use mcp_flow_principal::permissions::{self, Grants, Permissions};
pub use mcp_flow_proto as proto;
pub use mcp_flow_proto::model::ContentForm;
pub use mcp_flow_rate::Rate;
pub use mcp_flow_seal as seal;
pub use observe::{Detail, Observed, Observer};
pub use output_filter::{OutputFilter, strip_control_characters};
pub use prompt::{AddPromptsError, BadPrompt, IntoPromptOutput, IntoPrompts, Prompt, PromptOutput};
pub use resource::{
    AddResourcesError, App, AppBuilder, BadResource, IntoResources, Resource, ResourceTemplate,
};
pub use revision::{Dialect, VersionPolicy};
pub use server::{BuildError, Server, ServerBuilder, WeakServer};
pub use shared_notice::{ListKind, SharedNotice};
pub use signing::Signing;
pub use tap::{ContentTap, MessageSender, MessageTap};
pub use tool::{
    AddToolsError, BadTool, Failure, IntoToolOutput, IntoTools, Structured, Tool, ToolNames,
    ToolOutput,
};
