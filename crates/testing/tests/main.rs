//! Integration tests, in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod crashes;
mod flow_tests;
mod histories;
