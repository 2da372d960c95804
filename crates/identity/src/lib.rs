//! Verification of bearer tokens: static tokens, and JWTs of issuers whose keys rotate (C-46).
//!
//! A [`TokenVerifier`] is the [`Verifier`](mcp_flow_principal::Verifier) of all transports of a server.
//! It caches verified tokens by hash, so that most requests cost one lookup; `issuer` verifies the
//! others, with the key set of `keys`, the claims of `claims` and the signatures of `crypto`. Tokens
//! bound to a key need a proof of possession with each request (`dpop`, RFC 9449). Its
//! settings can be replaced while connections are open: connections whose token is no longer valid
//! are closed.
//!
//! ```
//! use mcp_flow_identity::{StaticTokens, TokenHash, TokenVerifier, VerifierSettings};
//! use mcp_flow_principal::{Principal, Verifier};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let hash = TokenHash::of("a-long-and-random-text");
//! let tokens = StaticTokens::default().and(hash, Principal::named("ada")).unwrap();
//! let settings = VerifierSettings { tokens, ..VerifierSettings::default() };
//! let verifier = TokenVerifier::new(settings).unwrap();
//!
//! let ada = verifier.verify("a-long-and-random-text").result().await.unwrap();
//! verifier.replace(VerifierSettings::default()).unwrap();
//! assert!(!ada.is_valid());
//! # }
//! ```

mod claims;
mod crypto;
mod dpop;
mod issuer;
mod keys;
mod static_tokens;
mod token_verifier;

pub use dpop::DpopSettings;
pub use issuer::{Algorithm, IssuerSettings, KeySource};
pub use keys::KeyError;
pub use mcp_flow_principal::check_name;
pub use static_tokens::{MIN_TOKEN_LENGTH, StaticTokens, TokenError, TokenHash};
pub use token_verifier::{TokenVerifier, VerifierSettings};
