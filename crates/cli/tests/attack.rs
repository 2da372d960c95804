//! Attacks on the real program, over every transport.
//!
//! Each file is one kind of attack: a table of hostile inputs with the expected rejection of each.
//! After every table valid calls still work, file descriptors are back at the baseline, and memory
//! has stayed within a bound. `docs/security.md` maps threats to these tests.

mod connection;
mod floods;
mod frames;
mod messages;
mod oversized;
mod patterns;
mod races;
mod raw_http;
mod rebinding;
mod replays;
mod report;
mod resource_usage;
mod sessions;
mod slow_clients;
mod smuggling;
mod target;
mod terminal_escapes;
mod tokens;
mod traversal;
mod webtransport;
