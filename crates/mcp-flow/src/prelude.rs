//! Everything most servers need: `use mcp_flow::prelude::*;`

pub use crate::model::{Content, PromptMessage};
pub use crate::{
    Context, Failure, Prompt, Resource, ResourceTemplate, Server, Structured, Tool, ToolOutput,
    data, prompt, prompts, resource, resources, tool, tools,
};
