//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod client;
mod client_hostile;
mod downloads;
mod identity;
mod legacy;
mod origins;
mod refusals;
mod scenarios;
mod sessions;
mod stateless;
mod support;
mod tls;
mod watched;
mod websocket;
