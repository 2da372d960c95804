//! Guide: one page per feature. The tests compile and run every example.

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

#[doc = include_str!("../guide/progress_and_cancellation.md")]
pub mod progress_and_cancellation {}

#[doc = include_str!("../guide/elicitation_and_sampling.md")]
pub mod elicitation_and_sampling {}

#[doc = include_str!("../guide/flows.md")]
pub mod flows {}

#[doc = include_str!("../guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("../guide/workflows.md")]
pub mod workflows {}

#[doc = include_str!("../guide/dynamic_tools.md")]
pub mod dynamic_tools {}

#[doc = include_str!("../guide/resources.md")]
pub mod resources {}

#[doc = include_str!("../guide/apps.md")]
pub mod apps {}

#[doc = include_str!("../guide/skills.md")]
pub mod skills {}

#[doc = include_str!("../guide/extensions.md")]
pub mod extensions {}

#[doc = include_str!("../guide/tool_builder.md")]
pub mod tool_builder {}

#[doc = include_str!("../guide/limits_and_hooks.md")]
pub mod limits_and_hooks {}

#[doc = include_str!("../guide/serving.md")]
pub mod serving {}

#[doc = include_str!("../guide/clients.md")]
pub mod clients {}

#[doc = include_str!("../guide/oauth_login.md")]
pub mod oauth_login {}

#[doc = include_str!("../guide/testing.md")]
pub mod testing {}

/// Tests the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
