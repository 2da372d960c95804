//! MCP servers and clients in Rust, for every protocol revision and transport.
//!
//! Depend on this crate only. A server is a list of tools; a tool is a function:
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
//! The [`guide`] has a page for each feature. Builders without attributes are in
//! [`tool`](mod@tool), [`prompt`](mod@prompt) and [`resource`](mod@resource), protocol types in
//! [`model`]; [`Context`] is a running call's access to its caller.
//!
//! # Features
//!
//! Tools, prompts, resources and the attributes are always included. `default` is `stdio`, `full` is
//! everything:
//!
//! | feature | adds |
//! |---|---|
//! | `stdio` | stdio transport, and newline-delimited JSON over TCP and Unix sockets: `stdio` |
//! | `http` | Streamable HTTP, HTTP+SSE and WebSocket on one port: `http` |
//! | `webtransport` | WebTransport: `webtransport` |
//! | `tls` | TLS certificates for the two above: `tls` |
//! | `flows` | flows and their sessions: `#[flow]`, `Interaction`, `engine`, `session` |
//! | `store-sqlite` | durable sessions in a file that processes share: `store_sqlite` |
//! | `store-postgres` | durable sessions of many nodes: `store_postgres` |
//! | `store-redb` | durable sessions in a file of one process: `store_redb` |
//! | `workflows` | workflow files and enforced runs: `workflow` |
//! | `skills` | skills extension: served, listed and verified: `skills` |
//! | `client` | client over pipes, sockets and in process, and over HTTP and WebTransport with those features: `client` |
//! | `oauth` | OAuth client: `oauth` |
//! | `identity` | authentication with static tokens and JWT: `identity` |
//! | `files` | files of a directory as resources: `files` |
//! | `admin` | admin extension: sessions, traffic and metrics over MCP: `admin` |
//! | `console` | web console and browser client: `console` |
//! | `testing` | tests of flows with a clock that skips and crashes at every append: `testing` |
//! | `observability` | audit log, metrics, a log line per call: `observability` |
//! | `json-schema` | full JSON Schema validation of arguments |

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
#[cfg(feature = "identity")]
pub use mcp_flow_identity::{StaticTokens, TokenHash};
#[cfg(feature = "flows")]
pub use mcp_flow_interaction::{
    Interaction, InteractionBuilder, IntoFlows, OfferedFlow, ServeFlows, TaskMode,
    describe_session, read_search,
};
pub use mcp_flow_macros::{data, flow, flows, prompt, prompts, resource, resources, tool, tools};
#[cfg(feature = "oauth")]
pub use mcp_flow_oauth as oauth;
#[cfg(feature = "observability")]
pub use mcp_flow_observability as observability;
pub use mcp_flow_proto::{Encoding, Raw, Revision, RpcError, decode_error, model};
pub use mcp_flow_seal as seal;
pub use mcp_flow_server::{
    AddPromptsError, AddResourcesError, AddToolsError, App, AppBuilder, AskError, BadPrompt,
    BadResource, BadTool, BuildError, Bulk, Connection, ConnectionEnd, ConnectionEvent,
    ConnectionInfo, ContentForm, ContentTap, Context, Dialect, Elicited, Failure, Form, Hook,
    IntoPromptOutput, IntoPrompts, IntoResources, IntoToolOutput, IntoTools, Limits, MessageSender,
    MessageTap, Peer, Permissions, Principal, Prompt, PromptOutput, Rate, Resource,
    ResourceTemplate, Server, ServerBuilder, SharedNotice, Signing, Structured, Tool, ToolNames,
    ToolOutput, Verifier, VersionPolicy, Veto, WeakServer, ask, bulk, completion, content, context,
    datagram, input, load, observe, permissions, prompt, resource, strip_control_characters, tool,
};
#[cfg(feature = "flows")]
pub use mcp_flow_session as session;
#[cfg(feature = "flows")]
pub use mcp_flow_session::{Date, question};
#[cfg(feature = "skills")]
pub use mcp_flow_skills as skills;
#[cfg(feature = "stdio")]
pub use mcp_flow_stdio as stdio;
#[cfg(feature = "store-postgres")]
pub use mcp_flow_store_postgres as store_postgres;
#[cfg(feature = "store-redb")]
pub use mcp_flow_store_redb as store_redb;
#[cfg(feature = "store-sqlite")]
pub use mcp_flow_store_sqlite as store_sqlite;
#[cfg(feature = "testing")]
pub use mcp_flow_testing as testing;
#[cfg(feature = "tls")]
pub use mcp_flow_tls as tls;
#[cfg(feature = "webtransport")]
pub use mcp_flow_webtransport as webtransport;
#[cfg(feature = "workflows")]
pub use mcp_flow_workflow as workflow;

/// Items used by the code that the attributes generate. Not a public API.
#[doc(hidden)]
pub mod __private {
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
    pub use serde_json::{Value, json};

    /// Parameters of a flow without parameters.
    #[derive(Debug, serde::Deserialize)]
    pub struct NoParams {}

    /// Returns whether a function returns this type, whatever its type parameters are. The function
    /// is not called.
    pub fn returns<Expected, Returned>(_: impl FnOnce() -> Returned) -> bool {
        let base = |name: &'static str| name.split('<').next();
        base(std::any::type_name::<Expected>()) == base(std::any::type_name::<Returned>())
    }
}
