//! Integration tests, in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod changes;
mod client_held;
mod cluster;
mod compensation;
mod histories;
mod limits;
mod links;
mod orders;
mod questions;
mod replay;
mod rewind;
mod signals;
mod steps;
mod support;
mod timers;
mod traces;
mod turns;
