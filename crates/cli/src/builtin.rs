//! The tools that are there without any configuration.

pub(crate) mod calculator;
pub(crate) mod diagnostics;
