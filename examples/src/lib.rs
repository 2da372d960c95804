//! Example tools, prompts and flows to copy from.
//!
//! Each module shows one feature: [`calculator`] plain functions and a named failure, [`wh40k`]
//! optional arguments, enums, structured results and waiting, [`long_operation`] progress,
//! [`audio_tone`] datagrams, [`read_file`] bulk results, [`prompts`](mod@prompts) a template and
//! completed arguments. Flows: [`register`] has two prompts, [`book_trip`] prompts that depend on
//! earlier answers, [`all_prompts`] every prompt type, [`countdown`] work between prompts.
//! `mcp-flow` serves all of them by default; `simple_server.rs` beside this crate serves some.
//!
//! [`everything`] is not to be copied from: it has the fixtures of the official conformance suite.

pub mod all_prompts;
pub mod audio_tone;
pub mod book_trip;
pub mod calculator;
pub mod countdown;
pub mod everything;
pub mod long_operation;
pub mod prompts;
pub mod read_file;
pub mod register;
pub mod wh40k;

use mcp_flow::{BadTool, IntoTools, OfferedFlow, Tool, flows, tools};

pub use prompts::prompts;

/// All tools without dependencies.
pub fn tools() -> Result<Vec<Tool>, BadTool> {
    let long = tools![long_operation::long_operation, audio_tone::audio_tone];
    (calculator::tools(), wh40k::tools(), long).into_tools()
}

/// All flows.
pub fn flows() -> Vec<OfferedFlow> {
    use mcp_flow::IntoFlows;
    flows![
        register::register,
        book_trip::book_trip,
        all_prompts::all_prompts,
        countdown::countdown,
    ]
    .into_flows()
}
