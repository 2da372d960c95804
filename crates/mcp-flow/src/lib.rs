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

pub mod client;
pub mod guide;
pub mod prelude;

pub use mcp_flow_admin as admin;
pub use mcp_flow_console as console;
pub use mcp_flow_engine as engine;
pub use mcp_flow_engine::{Flow, FlowError, FlowResult};
pub use mcp_flow_flow as session;
pub use mcp_flow_flow::{Date, question};
pub use mcp_flow_http as http;
pub use mcp_flow_identity as identity;
pub use mcp_flow_interaction::{
    Interaction, InteractionBuilder, IntoFlows, OfferedFlow, ServeFlows, describe_session,
};
pub use mcp_flow_macros::{data, flow, flows, prompt, prompts, resource, resources, tool, tools};
pub use mcp_flow_proto::{Revision, RpcError, model};
pub use mcp_flow_seal as seal;
pub use mcp_flow_server::{
    AddPromptsError, AddResourcesError, AddToolsError, AskError, BadPrompt, BadResource, BadTool,
    BuildError, Bulk, Connection, ConnectionInfo, ContentForm, Context, Dialect, Elicited, Ended,
    Event, Failure, Form, Hook, IntoPromptOutput, IntoPrompts, IntoResources, IntoToolOutput,
    IntoTools, Limits, Peer, Permissions, Principal, Prompt, PromptOutput, Rate, Resource,
    ResourceTemplate, Server, ServerBuilder, Signing, Structured, TokenHash, Tokens, Tool,
    ToolNames, ToolOutput, Verifier, VersionPolicy, Veto, ask, bulk, completion, content, context,
    datagram, input, load, permissions, prompt, resource, strip_control_characters, tool,
};
pub use mcp_flow_stdio as stdio;
pub use mcp_flow_store_redb as store_redb;
pub use mcp_flow_tls as tls;
pub use mcp_flow_watch as watch;
pub use mcp_flow_webtransport as webtransport;
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
