//! Server with the fixtures of the official conformance suite. `everything.rs` beside this crate
//! serves it over HTTP; the tests of `interop` run the suite.
//!
//! Modules, and the scenarios that need them:
//!
//! | here | scenarios |
//! |---|---|
//! | nothing in particular | `server-initialize`, `server-session-lifecycle`, `server-stateless`, `ping`, `logging-set-level`, `tools-list`, `caching`, `dns-rebinding-protection`, `http-header-validation`, `server-sse-multiple-streams` |
//! | [`content`] | `tools-call-simple-text`, `-image`, `-audio`, `-embedded-resource`, `-mixed-content`, `-error` |
//! | [`schemas`] | `json-schema-2020-12`, `http-custom-header-server-validation` |
//! | [`running`] | `tools-call-with-logging`, `tools-call-with-progress`, `server-sse-polling`; logging and changes in `server-stateless` |
//! | [`resources`] | `resources-list`, `-read-text`, `-read-binary`, `-templates-read`, `-subscribe`, `-unsubscribe`, `sep-2164-resource-not-found` |
//! | [`prompts`] | `prompts-list`, `prompts-get-simple`, `-with-args`, `-embedded-resource`, `-with-image`, `completion-complete` |
//! | [`client_requests`] | `tools-call-sampling`, `tools-call-elicitation`, `elicitation-sep1034-defaults`, `elicitation-sep1330-enums`; undeclared capabilities in `server-stateless` |
//! | [`rounds`] | `input-required-result-*` |
//! | [`tasks`] | `tasks-lifecycle`, `-capability-negotiation`, `-wire-fields`, `-request-state-removal`, `-mrtr-input`, `-request-headers`, `-dispatch-and-envelope`, `-required-task-error`, `-mrtr-composition` |
//! | [`skills`] | `sep-2640-skills-enumeration`, `-manifest`, `-directory` |

pub mod client_requests;
pub mod content;
pub mod prompts;
pub mod resources;
pub mod rounds;
pub mod running;
pub mod schemas;
pub mod skills;
pub mod tasks;

use mcp_flow::engine::SessionLimits;
use mcp_flow::skills::ServeSkills;
use mcp_flow::{Interaction, Server, ServerBuilder};

/// Builds the server. The caller chooses the transport.
pub fn server() -> ServerBuilder {
    // Everyone is one principal here, and whoever measures may open thousands of tasks.
    let limits = SessionLimits { sessions_per_owner: 100_000, ..SessionLimits::default() };
    let flows = Interaction::builder().flows(tasks::flows()).limits(limits).build();
    let server = Server::builder("everything", env!("CARGO_PKG_VERSION"))
        // The conformance suite answers one of its tools before it asks.
        .unsolicited_answers(true)
        .description("The fixtures of the official conformance suite")
        .instructions("Every tool here exists to be tested and does nothing else.")
        .tools((content::tools(), schemas::tools(), running::tools()))
        .tools((client_requests::tools(), rounds::tools()))
        .resources(resources::resources())
        .tools(tasks::tools())
        .skills(skills::skills())
        .prompts((prompts::prompts(), rounds::prompt()));
    flows.add_to(server)
}
