//! What the tests here share: the program under test, and a way to run the clients of other makers
//! against it.
//!
//! A client is a script in a folder beside this one. Over stdio it starts the program itself, as any
//! host would; over HTTP it is told where the program is. It prints what it saw, and the tests judge
//! that. `./install` installs what scripts need.

#![allow(clippy::panic, reason = "a test fails by panicking")]

mod client;
mod program;
mod report;
mod served;

pub use client::{Outcome, node, python, run};
pub use program::{ARGUMENTS, everything, everything_client, program};
pub use report::{Report, rises};
pub use served::{Served, start};

use std::time::Duration;

/// How long any client may take. It bounds what hangs: all of them are done in a few seconds, and in a
/// few minutes on a machine that has much else to do.
pub const LIMIT: Duration = Duration::from_secs(300);
