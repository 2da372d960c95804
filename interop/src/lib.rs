//! Shared by the interoperability tests: the program under test, and running the clients of other
//! vendors against it.
//!
//! A client is a script in a directory beside this one. Over stdio it starts the program itself, like
//! any host; over HTTP it gets a URL. It prints a report, which the tests check. `./install` installs
//! the dependencies of the scripts.

#![allow(clippy::panic, reason = "a test fails by panicking")]

mod client;
mod program;
mod report;
mod served;

pub use client::{Outcome, node, python, run};
pub use program::{ARGUMENTS, everything, everything_client, program, strip_program};
pub use report::{Report, rises};
pub use served::{Served, start};

use std::time::Duration;

/// Time limit for a client. It catches hangs: clients take seconds, or minutes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Pages of the site whose code in Rust compiles.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/migration/rmcp.md")]
    mod rmcp {}
    #[doc = include_str!("../../docs/migration/fastmcp.md")]
    mod fastmcp {}
}
