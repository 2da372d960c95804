//! Integration tests, in one binary.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod accounts;
mod approvals;
mod calls;
mod downloads;
mod failures;
mod hostile;
mod lifecycle;
mod pins;
mod questions;
mod resources;
mod search;
mod support;
mod tasks;
