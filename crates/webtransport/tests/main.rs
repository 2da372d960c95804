//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod control;
mod datagrams;
mod door;
mod hostile;
mod lossy;
mod reach;
mod scenarios;
mod streams;
mod support;
