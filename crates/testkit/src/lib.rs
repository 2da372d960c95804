//! Peers, scripted servers and processes, for tests of servers and clients from outside.
//!
//! A [`Peer`] is a scripted client. [`lines`], [`process`], [`streamable`], [`sse`] and [`websocket`]
//! connect one over each wire. [`http`] writes raw HTTP, valid or not; [`scripted`] has servers whose
//! every response is up to the test; [`relay`] is a lossy network; [`signer`] signs and forges tokens.
//! [`postgres`] starts a database server, [`tcp_relay`] cuts connections to it. [`usage`] measures a process, [`crash`] kills one at random points, [`cluster`] several, [`wait`] bounds every wait.
//!
//! Depends on `proto` only: nothing here is checked by the code it tests.

// A failed expectation panics with the reason: that is how a test learns of it.
#![allow(clippy::panic, clippy::unwrap_used)]

pub mod cluster;
pub mod crash;
pub mod http;
pub mod lines;
mod peer;
pub mod postgres;
pub mod process;
pub mod relay;
pub mod scripted;
pub mod signer;
pub mod sse;
pub mod streamable;
pub mod tcp_relay;
pub mod usage;
pub mod wait;
pub mod websocket;

pub use peer::{Peer, stateless_meta};
