//! The admin methods, from outside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod watching;
