//! Verification of tokens, from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod gate;
mod support;
