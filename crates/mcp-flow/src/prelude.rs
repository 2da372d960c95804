//! Everything most servers need: `use mcp_flow::prelude::*;`

pub use crate::model::{Content, PromptMessage};
pub use crate::{
    Context, Failure, Flow, FlowResult, Prompt, Resource, ResourceTemplate, ServeFlows, Server,
    Structured, Tool, ToolOutput, data, flow, flows, prompt, prompts, resource, resources, tool,
    tools,
};
