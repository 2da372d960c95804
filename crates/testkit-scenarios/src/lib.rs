//! Scenario suites: what every transport must carry, with a scripted peer against a server
//! ([`suite!`]) and with a client ([`client_suite!`]).

// A failed expectation panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod client;
pub mod server;
