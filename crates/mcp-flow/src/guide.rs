//! One page for each feature. Every example on them is compiled and run by the tests.

#[doc = include_str!("../guide/tools.md")]
pub mod tools {}

#[doc = include_str!("../guide/arguments.md")]
pub mod arguments {}

#[doc = include_str!("../guide/results.md")]
pub mod results {}

#[doc = include_str!("../guide/prompts.md")]
pub mod prompts {}

#[doc = include_str!("../guide/state.md")]
pub mod state {}

#[doc = include_str!("../guide/while_it_runs.md")]
pub mod while_it_runs {}

#[doc = include_str!("../guide/asking.md")]
pub mod asking {}

#[doc = include_str!("../guide/flows.md")]
pub mod flows {}

#[doc = include_str!("../guide/workflows.md")]
pub mod workflows {}

#[doc = include_str!("../guide/changing_tools.md")]
pub mod changing_tools {}

#[doc = include_str!("../guide/resources.md")]
pub mod resources {}

#[doc = include_str!("../guide/by_hand.md")]
pub mod by_hand {}

#[doc = include_str!("../guide/limits_and_hooks.md")]
pub mod limits_and_hooks {}

#[doc = include_str!("../guide/serving.md")]
pub mod serving {}

#[doc = include_str!("../guide/clients.md")]
pub mod clients {}

#[doc = include_str!("../guide/logging_in.md")]
pub mod logging_in {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

/// The README's examples are true, too.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
