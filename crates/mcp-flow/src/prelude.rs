//! Everything most servers need: `use mcp_flow::prelude::*;`

pub use crate::model::Content;
pub use crate::{Context, Failure, Server, Structured, Tool, ToolOutput, data, tool, tools};
