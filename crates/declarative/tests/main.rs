//! Tools of files, as clients call them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod commands;
mod files;
mod flows;
mod injection;
mod openapi;
mod requests;
mod support;
