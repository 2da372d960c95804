//! Common imports for servers: `use mcp_flow::prelude::*;`

#[cfg(feature = "files")]
pub use crate::files::ServeFiles;
pub use crate::model::{Content, PromptMessage};
pub use crate::{
    Context, Failure, Prompt, Resource, ResourceTemplate, Server, Structured, Tool, ToolOutput,
    data, flow, flows, prompt, prompts, resource, resources, tool, tools,
};
#[cfg(feature = "flows")]
pub use crate::{Flow, FlowResult, ServeFlows};
