//! Integration tests, in one binary: every binary more would link the whole crate again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod attack;
mod audit;
mod commands;
mod crash;
mod doctor;
mod files;
mod flood;
mod login;
mod observed;
mod serve;
mod signed;
mod skills;
mod soak;
mod stdio;
mod support;
mod terminal;
mod tools;
mod workflowlookup;
