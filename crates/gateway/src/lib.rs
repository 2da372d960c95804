//! Gateway: serves other MCP servers, the upstreams, as parts of one server.
//!
//! Follow a call: the server finds a tool that `registration` added for an upstream and runs
//! `forward`, which leases a connection from the upstream's `pool`, sends the request, and replies
//! with its result. If the upstream asks (`question`), or somebody has to approve the call first, the
//! rest of it is a session of a flow (`session`): `live` keeps the call of an upstream with a
//! handshake alive, `task` follows one that an upstream continues as a task, and `follow` asks the
//! caller, whose revision may be another.
//!
//! This crate opens no connections itself: each [`UpstreamSettings`] brings a connector.
//!
//! Everything an upstream sends is untrusted: names are mapped to valid ones, URIs cannot take
//! those of an upstream before it, and failures stay with the upstream that caused them.

mod accounts;
mod administration;
mod asked;
mod breaker;
mod definitions;
mod difference;
mod download;
mod error;
mod follow;
mod forward;
mod gateway;
mod isolation;
mod large;
mod live;
mod maintenance;
mod metrics;
mod naming;
mod nodes;
mod offline;
mod patterns;
mod pins;
mod pool;
mod question;
mod recovery;
mod registration;
mod relay;
mod resources;
mod result;
mod search;
mod session;
mod settings;
mod streams;
mod task;
mod upstream;
mod uri_template;
mod url_questions;

pub use accounts::{Login, UserAccounts};
pub use gateway::{Gateway, InvalidUpstreams};
pub use metrics::{UpstreamCalls, UpstreamFailure};
pub use offline::OfflineCalls;
pub use patterns::{ApprovalRules, ToolPatterns, UNLESS_READ_ONLY};
pub use pins::{ApproveError, Pin, PinEntry, PinState, Pins};
pub use settings::{Isolation, UpstreamSettings};
pub use upstream::{UpstreamState, UpstreamStatus};
