//! Principals: the identity of callers, the verification of their credentials, and their permissions.
//!
//! A [`Principal`] is the authenticated identity of a caller. A [`Verifier`] derives it from a bearer token;
//! `mcp-flow-identity` has verifiers for static tokens and JWTs. [`permissions`] are the rules for what a
//! principal may use. Servers authenticate and authorize by these types; transports and the protocol are
//! no concern of this crate.

pub mod permissions;
mod principal;
mod proof;
mod verifier;

pub use principal::{Principal, check_name};
pub use proof::{ProofContext, ProofRejected, ProofRequirements};
pub use verifier::{TokenRejected, TokenRequirements, Verification, Verifier};
