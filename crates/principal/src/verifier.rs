//! The verifier of bearer tokens: the interface between transports and token issuers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::principal::Principal;
use crate::proof::{ProofContext, ProofRejected, ProofRequirements};

/// Verifies bearer tokens. Every transport that carries tokens uses one.
///
/// It returns the same principal for a token for as long as anyone holds it, so that
/// [`Principal::revoke`] reaches all connections authenticated with that token.
pub trait Verifier: fmt::Debug + Send + Sync + 'static {
    /// Verifies a token. Called for every request, so results should be cached.
    fn verify<'a>(&'a self, token: &'a str) -> Verification<'a>;

    /// Verifies the DPoP proof of a request whose token is bound to a key
    /// ([`Principal::bound_key`]). Returns the nonce for the next proof, if it should change.
    ///
    /// Called for every request; a verifier that issues no bound tokens need not implement it.
    fn verify_proof(
        &self,
        _proof: &str,
        _request: &ProofContext<'_>,
    ) -> Result<Option<String>, ProofRejected> {
        Err(ProofRejected::Algorithm)
    }

    /// The nonce that the next proof must contain, if nonces are required.
    fn proof_nonce(&self) -> Option<String> {
        None
    }

    /// Returns whether verifying the same token again would surely give this principal, so that a
    /// connection need not verify it with every request.
    fn is_still_valid(&self, _principal: &Principal) -> bool {
        false
    }

    /// The requirements reported to clients whose token is missing or insufficient.
    fn requirements(&self) -> Arc<TokenRequirements> {
        Arc::default()
    }
}

/// A verification: its result, or a future of it.
pub enum Verification<'a> {
    /// The result.
    Now(Result<Principal, TokenRejected>),
    /// A future of the result, for example while an issuer's keys are fetched.
    Later(Pin<Box<dyn Future<Output = Result<Principal, TokenRejected>> + Send + 'a>>),
}

impl Verification<'_> {
    /// Waits for the result.
    pub async fn result(self) -> Result<Principal, TokenRejected> {
        match self {
            Self::Now(verdict) => verdict,
            Self::Later(verdict) => verdict.await,
        }
    }
}

impl fmt::Debug for Verification<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(verdict) => formatter.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => formatter.write_str("Later"),
        }
    }
}

/// Rejection of a token. The texts help the holder of the token and reveal nothing to others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRejected {
    /// Unknown, or not validly signed.
    #[error("The token is unknown.")]
    Unknown,
    /// Expired, or not valid yet.
    #[error("The token has expired, or is not valid yet.")]
    Expired,
    /// Issued for another audience.
    #[error("The token was issued for another server.")]
    Audience,
    /// Valid, but without a required scope.
    #[error("The token lacks a scope that this server needs: {}.", .0.join(" "))]
    Scope(Vec<String>),
    /// Valid, but not bound to a key by DPoP, which is required.
    #[error("The token must be bound to a key: request one with a DPoP proof.")]
    NotBound,
    /// Not verifiable at the moment.
    #[error("The token cannot be checked at the moment; try again later.")]
    Unavailable,
}

/// The requirements on tokens, as protected resource metadata reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRequirements {
    /// The issuers of tokens, by URL.
    pub authorization_servers: Vec<String>,
    /// The scopes every token needs.
    pub required_scopes: Vec<String>,
    /// All scopes that this server uses.
    pub scopes: Vec<String>,
    /// The use of DPoP; none if bound tokens are never accepted.
    pub proofs: Option<ProofRequirements>,
}
