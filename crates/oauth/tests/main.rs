//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod account;
mod assertions;
mod discovery;
mod dpop;
mod hostile;
mod support;
