//! Integration tests, in one binary, so that the crate is linked once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod collectors;
