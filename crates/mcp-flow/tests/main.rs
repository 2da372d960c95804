//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod approval;
mod apps;
mod crashes;
mod flows;
mod links;
mod prompts;
mod resources;
mod tools;
