//! Flows offered as MCP, in every form a client can take.
//!
//! - `interaction.*` and `capabilities`: a client starts a conversation and is asked by requests,
//!   or in the results of its own (`methods`, `delivery`).
//! - `tools/call`: every flow is a tool as well (`tool`). Clients that can show forms are asked by
//!   `elicitation/create`, those of 2026-07-28 by `input_required`; all others give every value
//!   upfront, and are told what is missing.
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

mod delivery;
pub mod fault;
mod fields;
mod interaction;
mod methods;
mod offer;
mod shown;
mod tool;
mod warning;
mod wire;

pub use interaction::{Interaction, InteractionBuilder, ServeFlows};
pub use offer::{IntoFlows, OfferedFlow};
pub use wire::listed as describe_session;
