//! Everything most servers need: `use mcp_flow::prelude::*;`

pub use crate::model::Content;
pub use crate::{
    Context, Failure, Flow, FlowResult, ServeFlows, Server, Structured, Tool, ToolOutput, data,
    flow, flows, tool, tools,
};
