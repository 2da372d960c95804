//! Example tools and prompts, real enough to copy from.
//!
//! Each module shows one thing: [`calculator`] plain functions and a failure with a name,
//! [`wh40k`] optional arguments, enums, structured results and waiting, [`long_operation`]
//! progress, [`audio_tone`] datagrams, [`read_file`] results of any size, [`prompts`](mod@prompts) a template and completed
//! arguments. Flows ask: [`register`] two questions, [`book_trip`] what depends on earlier answers,
//! [`all_prompts`] every kind there is, [`countdown`] works between its questions. `mcp-flow`
//! serves all of them when nothing else is configured, and `simple_server.rs` beside this crate is
//! the program that serves some and nothing more.
//!
//! [`everything`] is not to be copied from: it is what the official conformance suite asks for.

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

/// All of them that need nothing to work with.
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
