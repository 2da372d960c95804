//! Integration tests, in one binary: each further binary would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod attack;
mod audit;
mod bridge;
mod cassettes;
mod cluster;
mod commands;
mod completions;
mod crash;
mod doctor;
mod files;
mod flood;
mod gateway;
mod login;
mod message_signing;
mod observability;
mod pack;
mod serve;
mod skills;
mod soak;
mod stdio;
mod support;
mod terminal;
mod tool_files;
mod tools;
mod workflowlookup;
