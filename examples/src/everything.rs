//! The server that the official conformance suite is run against: one of everything, and nothing
//! useful. `everything.rs` beside this crate serves it over HTTP; the tests of `interop` run the
//! suite.
//!
//! What the suite asks for by name, and the scenarios that do:
//!
//! | here | scenarios |
//! |---|---|
//! | nothing in particular | `server-initialize`, `server-session-lifecycle`, `server-stateless`, `ping`, `logging-set-level`, `tools-list`, `caching`, `dns-rebinding-protection`, `http-header-validation`, `server-sse-multiple-streams` |
//! | [`content`] | `tools-call-simple-text`, `-image`, `-audio`, `-embedded-resource`, `-mixed-content`, `-error` |
//! | [`schemas`] | `json-schema-2020-12`, `http-custom-header-server-validation` |
//! | [`running`] | `tools-call-with-logging`, `tools-call-with-progress`, `server-sse-polling`; in `server-stateless` what is logged and what changes |
//! | [`resources`] | `resources-list`, `-read-text`, `-read-binary`, `-templates-read`, `-subscribe`, `-unsubscribe`, `sep-2164-resource-not-found` |
//! | [`prompts`] | `prompts-list`, `prompts-get-simple`, `-with-args`, `-embedded-resource`, `-with-image`, `completion-complete` |
//! | [`asking`] | `tools-call-sampling`, `tools-call-elicitation`, `elicitation-sep1034-defaults`, `elicitation-sep1330-enums`; in `server-stateless` what a client has not declared |
//! | [`rounds`] | `input-required-result-*` |

pub mod asking;
pub mod content;
pub mod prompts;
pub mod resources;
pub mod rounds;
pub mod running;
pub mod schemas;

use mcp_flow::{Server, ServerBuilder};

/// One of everything. What it is served over is up to the caller.
pub fn server() -> ServerBuilder {
    Server::builder("everything", env!("CARGO_PKG_VERSION"))
        // The conformance suite answers one of its tools before it asks.
        .unsolicited_answers(true)
        .description("The fixtures of the official conformance suite")
        .instructions("Every tool here exists to be tested and does nothing else.")
        .tools((content::tools(), schemas::tools(), running::tools()))
        .tools((asking::tools(), rounds::tools()))
        .resources(resources::resources())
        .prompts((prompts::prompts(), rounds::prompt()))
}
