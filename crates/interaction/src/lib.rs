//! Flows offered by MCP, in every form a client supports.
//!
//! - `interaction.*` and `capabilities`: a client starts a session and is asked by requests of the
//!   server, or in the results of its own (`methods`, `delivery`).
//! - `tools/call`: every flow is a tool as well (`tool`). Clients with elicitation are asked by
//!   `elicitation/create`, those of 2026-07-28 by `input_required`; all others send every value as
//!   an argument, and get an error with the missing ones.
//! - `tasks/*`: a call of `tools/call` that takes long continues as a task (`task`).
//!
//! Sessions are stored by the server, or held by clients in tokens (`backend`).
//!
//! ```
//! use mcp_flow_engine::{Flow, FlowResult};
//! use mcp_flow_session::question::text;
//! use mcp_flow_interaction::{Interaction, OfferedFlow};
//! use mcp_flow_server::Server;
//!
//! #[derive(serde::Deserialize)]
//! struct Nothing {}
//!
//! async fn greet(flow: Flow, _: Nothing) -> FlowResult<String> {
//!     let name = flow.ask("name", text("Who are you?")).await?;
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! let interaction = Interaction::builder().flows(OfferedFlow::new("greet", greet)).build();
//! let server = interaction.add_to(Server::builder("polite", "1.0.0")).build().unwrap();
//! assert!(server.find_tool("greet").is_some());
//! ```

mod backend;
mod delivered_turns;
mod delivery;
mod expiry;
mod fields;
mod interaction;
mod links;
mod methods;
mod offer;
pub mod protocol_errors;
mod task;
mod tool;
mod wire;

pub use interaction::{CallDepth, Interaction, InteractionBuilder, ServeFlows};
pub use methods::list::read_search;
pub use offer::{IntoFlows, OfferedFlow};
pub use task::TaskMode;
pub use wire::listed as describe_session;
