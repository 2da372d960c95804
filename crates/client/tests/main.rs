//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod caching;
mod connections;
mod hostile;
mod literal;
mod output;
mod sessions;
mod support;
mod tasks;
