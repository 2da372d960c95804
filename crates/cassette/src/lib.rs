//! Cassettes: recordings of MCP traffic, one JSON Lines file each.
//!
//! A [`Recorder`] writes one beside a relay ([`StdioRelay`], [`HttpRelay`]) that passes bytes on in
//! both directions without changing or holding them. [`mask`](Masker) removes secrets before anything
//! is written. A [`Player`] answers as recorded, over pipes ([`replay_stdio`]) and HTTP
//! ([`ReplayServer`]). [`verify`] plays the client's side against a real server and compares.
//!
//! The format is documented in `docs/cassettes.md`. Everything in a cassette is untrusted: it may be
//! truncated, edited or newer than this program.

mod answers;
mod compare;
mod connections;
mod content;
mod export;
mod format;
mod handshake;
mod http_recorder;
mod http_replay;
mod junit;
mod large;
mod links;
mod local;
mod mask;
mod nearest;
mod order;
mod player;
mod recorded_body;
mod recorder;
mod relay_target;
mod removed;
mod renamed;
mod schedule;
mod stdio;
mod tap;
mod tape;
mod verify;

pub use answers::MessageMasker;
pub use compare::{Difference, Variations};
pub use content::RecordedContent;
pub use export::cassette_of_exchanges;
pub use format::{Cassette, CassetteError, CassetteHeader};
pub use http_recorder::HttpRelay;
pub use http_replay::ReplayServer;
pub use junit::{junit_error, junit_report};
pub use mask::{MASK, Masker};
pub use player::{Player, ReplayOptions};
pub use recorder::{Recorder, RecordingFile, RecordingSummary};
pub use stdio::{StdioRelay, replay_stdio};
pub use tape::Tape;
pub use verify::{VerifiedExchange, VerifyOptions, VerifyReport, verify};
