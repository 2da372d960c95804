//! What this crate offers to stores, from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;
