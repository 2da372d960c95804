//! Integration tests, in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod documentation;
mod sessions;
mod signals;
mod tasks;
mod timeouts;
mod timers;
