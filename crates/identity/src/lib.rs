//! Who is let in: bearer tokens that were handed over by hand, and signed ones (JWT) of issuers
//! whose keys are looked up and may change (C-46).
//!
//! A [`Gate`] is the [`Verifier`](mcp_flow_server::Verifier) of all transports of a server. `gate`
//! knows every token it has seen by its hash, so that a request costs one lookup; `issuer` judges
//! tokens it has not seen, with the keys of `keys`, the rules of `claims` and the signatures of
//! `crypto`. What a gate lets in can be exchanged while connections are open: those that are good by
//! the new settings stay, the others are closed.
//!
//! ```
//! use mcp_flow_identity::{Gate, Settings};
//! use mcp_flow_server::{Principal, TokenHash, StaticTokens, Verifier};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let hash = TokenHash::of("a-long-and-random-text");
//! let tokens = StaticTokens::default().and(hash, Principal::named("ada")).unwrap();
//! let gate = Gate::new(Settings { tokens, ..Settings::default() }).unwrap();
//!
//! let ada = gate.verify("a-long-and-random-text").result().await.unwrap();
//! gate.replace(Settings::default()).unwrap();
//! assert!(!ada.is_valid());
//! # }
//! ```

mod claims;
mod crypto;
mod gate;
mod issuer;
mod keys;

pub use gate::{Gate, Settings};
pub use issuer::{Algorithm, IssuerSettings, KeySource};
pub use keys::KeyError;
pub use mcp_flow_server::SHORTEST_TOKEN;
pub use mcp_flow_server::identity::check_name;
