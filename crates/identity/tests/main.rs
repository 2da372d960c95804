//! Verification of bearer tokens through the public API.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod dpop;
mod support;
mod token_verifier;
