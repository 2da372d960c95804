//! Requests of the client by MCP method, and the typed request behind them.
//!
//! `request` sends a request and waits for its result; `tools`, `resources`, `prompts`,
//! `completion`, `logging`, `subscription` and `tasks` are the methods, `pages` paginated lists;
//! `follow` follows calls that continue as tasks; `trace` is their part in a trace.

pub(crate) mod arguments;
pub(crate) mod completion;
pub(crate) mod content;
mod header_arguments;
pub(crate) mod input_required;
pub(crate) mod listed_tools;
pub(crate) mod logging;
pub(crate) mod pages;
pub(crate) mod prompts;
pub(crate) mod request;
pub(crate) mod resources;
pub(crate) mod result_cache;
pub(crate) mod subscription;
mod task_polling;
pub(crate) mod tasks;
pub(crate) mod tools;
mod trace;
