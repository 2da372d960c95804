//! Integration tests, in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod arrivals;
mod authentication;
mod client;
mod client_hostile;
mod cluster;
mod downloads;
mod dpop;
mod legacy_sse;
mod operator;
mod origins;
mod rejections;
mod scenarios;
mod server_card;
mod sessions;
mod stateless;
mod support;
mod tls;
mod websocket;
