//! Tools from files: commands, HTTP requests, OpenAPI import, flow files.
//!
//! A [`ToolLibrary`] reads tool files, serves the tools they declare, and follows changes.
//! [`ToolReading`] reads one file with all its problems. `command` runs programs, `http` sends
//! requests, `flow` runs on the engine; `output` makes results of what they return. `template` and
//! `secret` fill in arguments and credentials, each in its place: no value is ever parsed as a
//! command, a path or a header. [`sandbox`] restricts programs. [`openapi`] writes tool files.

mod command;
mod flow;
mod http;
mod library;
mod model;
pub mod openapi;
mod output;
mod read;
pub mod sandbox;
mod schema;
mod secret;
mod template;

pub use mcp_flow_http_client::Trust;
pub use mcp_flow_workflow::document;

pub use library::{
    ToolFileStatus, ToolLibrary, UnreadableTools, UnsupportedSandbox, check_tool_files,
    tool_files_in,
};
pub use model::{DeclaredTool, ToolFile};
pub use read::ToolReading;
pub use schema::{SCHEMA, schema_resource};
