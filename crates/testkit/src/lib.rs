//! For tests only: what it takes to try a server from outside.
//!
//! A [`Peer`] is a scripted client. [`memory`] connects one to a server without any I/O,
//! [`process`] to a program over its pipes, [`streamable`], [`sse`] and [`websocket`] to an address.
//! [`http`] is a client for trying what a good one never does, [`relay`] a bad network, [`usage`] what
//! a program takes, [`scripted`] servers for trying clients in the same way, [`signer`] forges tokens.
//! [`scenario`] is the suite
//! every transport passes, run against the server of [`fixture`]. [`fuzz`] holds what must be true of
//! any bytes whatever, [`store`] what must be true of any store of journals, [`client`] what a client
//! must manage over any transport, [`crash`] what is true of any conversation with a program that is
//! killed. [`wait`] makes an end of waiting.

// A peer that is not answered panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod client;
pub mod crash;
pub mod fixture;
pub mod fuzz;
pub mod http;
pub mod lines;
pub mod memory;
mod peer;
pub mod process;
pub mod relay;
pub mod scenario;
pub mod scripted;
pub mod signer;
pub mod sse;
pub mod store;
pub mod streamable;
pub mod usage;
pub mod wait;
pub mod websocket;

pub use peer::Peer;
