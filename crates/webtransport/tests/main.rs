//! Integration tests in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod client;
mod control;
mod datagrams;
mod hostile;
mod lossy;
mod scenarios;
mod streams;
mod support;
mod transport;
