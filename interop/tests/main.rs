//! Integration tests in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod conformance;
mod conformance_client;
mod console;
mod inspector;
mod python;
mod rust;
mod servers;
mod typescript;
mod webtransport;
