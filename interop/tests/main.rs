//! Integration tests in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod book;
mod browser;
mod completions;
mod conformance;
mod conformance_client;
mod console;
mod gateway;
mod inspector;
mod load_balancer;
mod pack;
mod packages;
mod python;
mod readme;
mod recordings;
mod rust;
mod scaffold;
mod servers;
mod skills;
mod specifications;
mod tasks;
mod telemetry;
mod typescript;
mod webtransport;
