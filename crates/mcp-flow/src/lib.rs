//! MCP tools written once, in Rust, and served to every client there is.
//!
//! This is the one crate to depend on. A server is a list of tools; a tool is a function:
//!
//! ```no_run
//! use mcp_flow::prelude::*;
//!
//! /// Greets someone by name
//! #[tool(quick)]
//! fn greet(
//!     /// Whom to greet
//!     name: String,
//! ) -> String {
//!     format!("Hello, {name}!")
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::builder("greeter", "1.0.0").tools(tools![greet]).build()?;
//!     mcp_flow::stdio::run(&server)?;
//!     Ok(())
//! }
//! ```
//!
//! The [`guide`] has a page for each feature. What is behind it: [`tool`](mod@tool),
//! [`prompt`](mod@prompt) and [`resource`](mod@resource) for what is written without attributes, [`model`] for the types of the
//! protocol, [`Context`] for what a tool can do while it runs.
//!
//! # Features
//!
//! Tools, prompts, resources and the attributes are always there. `default` adds `stdio` alone,
//! `full` adds everything:
//!
//! | feature | what it adds |
//! |---|---|
//! | `stdio` | serving over standard input and output, TCP and Unix sockets: `stdio` |
//! | `http` | Streamable HTTP, HTTP+SSE and WebSocket on one port: `http` |
//! | `webtransport` | WebTransport: `webtransport` |
//! | `tls` | certificates, for the two above: `tls` |
//! | `flows` | conversations: `#[flow]`, `Interaction`, `engine`, `session` |
//! | `store-redb` | conversations that survive a crash: `store_redb` |
//! | `workflows` | workflow files and enforced runs: `workflow` |
//! | `client` | clients over pipes, sockets and in the same process, and over HTTP and WebTransport if those features are on: `client` |
//! | `oauth` | logging in to protected servers: `oauth` |
//! | `identity` | bearer tokens and JWT of authorization servers: `identity` |
//! | `files` | directories whose files are resources: `files` |
//! | `admin` | sessions, traffic and figures by MCP: `admin` |
//! | `console` | the web console and the browser client: `console` |
//! | `observability` | audit log, figures, a log line for each call |
//! | `json-schema` | complete JSON Schema for arguments |

#[cfg(feature = "client")]
pub mod client;
pub mod guide;
pub mod prelude;

#[cfg(feature = "admin")]
pub use mcp_flow_admin as admin;
#[cfg(feature = "console")]
pub use mcp_flow_console as console;
#[cfg(feature = "flows")]
pub use mcp_flow_engine as engine;
#[cfg(feature = "flows")]
pub use mcp_flow_engine::{Flow, FlowError, FlowResult};
#[cfg(feature = "files")]
pub use mcp_flow_files as files;
#[cfg(feature = "http")]
pub use mcp_flow_http as http;
#[cfg(feature = "identity")]
pub use mcp_flow_identity as identity;
#[cfg(feature = "flows")]
pub use mcp_flow_interaction::{
    Interaction, InteractionBuilder, IntoFlows, OfferedFlow, ServeFlows, describe_session,
};
pub use mcp_flow_macros::{data, flow, flows, prompt, prompts, resource, resources, tool, tools};
#[cfg(feature = "oauth")]
pub use mcp_flow_oauth as oauth;
#[cfg(feature = "observability")]
pub use mcp_flow_observability as observability;
pub use mcp_flow_proto::{Revision, RpcError, model};
pub use mcp_flow_seal as seal;
pub use mcp_flow_server::{
    AddPromptsError, AddResourcesError, AddToolsError, AskError, BadPrompt, BadResource, BadTool,
    BuildError, Bulk, Connection, ConnectionEnd, ConnectionEvent, ConnectionInfo, ContentForm,
    Context, Dialect, Elicited, Failure, Form, Hook, IntoPromptOutput, IntoPrompts, IntoResources,
    IntoToolOutput, IntoTools, Limits, Peer, Permissions, Principal, Prompt, PromptOutput, Rate,
    Resource, ResourceTemplate, Server, ServerBuilder, Signing, StaticTokens, Structured,
    TokenHash, Tool, ToolNames, ToolOutput, Verifier, VersionPolicy, Veto, WeakServer, ask, bulk,
    completion, content, context, datagram, input, load, observe, permissions, prompt, resource,
    strip_control_characters, tool,
};
#[cfg(feature = "flows")]
pub use mcp_flow_session as session;
#[cfg(feature = "flows")]
pub use mcp_flow_session::{Date, question};
#[cfg(feature = "stdio")]
pub use mcp_flow_stdio as stdio;
#[cfg(feature = "store-redb")]
pub use mcp_flow_store_redb as store_redb;
#[cfg(feature = "tls")]
pub use mcp_flow_tls as tls;
#[cfg(feature = "webtransport")]
pub use mcp_flow_webtransport as webtransport;
#[cfg(feature = "workflows")]
pub use mcp_flow_workflow as workflow;

/// What the attributes write refers to. Not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
    pub use serde_json::{Value, json};

    /// The parameters of a flow that has none.
    #[derive(Debug, serde::Deserialize)]
    pub struct NoParams {}
}
