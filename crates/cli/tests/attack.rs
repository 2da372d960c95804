//! Attacks on the real program, over every transport.
//!
//! Each file is a family: a table of hostile inputs with the refusal that is expected of each. After
//! every family good calls still work, handles are back at the start, and memory has stayed within a
//! bound. `docs/security.md` says which threat is held by which of them.

mod book;
mod floods;
mod frames;
mod health;
mod messages;
mod patterns;
mod races;
mod raw;
mod rebinding;
mod replays;
mod sessions;
mod sizes;
mod slow;
mod smuggling;
mod target;
mod terminal;
mod tokens;
mod traversal;
mod way;
mod webtransport;
