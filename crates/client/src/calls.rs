//! Requests of the client by MCP method, and the typed request behind them.
//!
//! `request` sends a request and waits for its result; `tools`, `resources`, `prompts`,
//! `completion`, `logging` and `subscription` are the methods, `pages` paginated lists.

pub(crate) mod arguments;
pub(crate) mod completion;
pub(crate) mod content;
mod header_arguments;
pub(crate) mod input_required;
pub(crate) mod logging;
pub(crate) mod pages;
pub(crate) mod prompts;
pub(crate) mod request;
pub(crate) mod resources;
pub(crate) mod subscription;
pub(crate) mod tools;
