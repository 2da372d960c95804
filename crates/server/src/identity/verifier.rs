//! Checking credentials: the seam between transports, which have a token, and those who know what
//! it stands for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::Principal;

/// Says whom a bearer token stands for. Every transport that carries tokens asks one.
///
/// It gives out one principal for each token and keeps it for as long as somebody else does, so
/// that taking it back by [`Principal::revoke`] reaches all connections that were let in by it.
pub trait Verifier: fmt::Debug + Send + Sync + 'static {
    /// Whom a token stands for. Asked with every request, so it should know by heart what it has
    /// seen before.
    fn verify<'a>(&'a self, token: &'a str) -> Verifying<'a>;

    /// Whether a principal it gave out is surely what it would give for the same token again, so
    /// that a connection on which the same token comes again and again need not ask.
    fn still_stands(&self, _principal: &Principal) -> bool {
        false
    }

    /// What clients without a token, or with too little of one, are told.
    fn terms(&self) -> Arc<Terms> {
        Arc::default()
    }
}

/// A verdict, or what it takes to come to one.
pub enum Verifying<'a> {
    /// It is known.
    Now(Result<Principal, Refused>),
    /// Something has to be waited for, such as the keys of an issuer.
    Later(Pin<Box<dyn Future<Output = Result<Principal, Refused>> + Send + 'a>>),
}

impl Verifying<'_> {
    /// Waits for the verdict.
    pub async fn verdict(self) -> Result<Principal, Refused> {
        match self {
            Self::Now(verdict) => verdict,
            Self::Later(verdict) => verdict.await,
        }
    }
}

impl fmt::Debug for Verifying<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(verdict) => formatter.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => formatter.write_str("Later"),
        }
    }
}

/// Why a token is not enough. What is said of it helps who has the token and nobody else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is not one that is known, or not one that holds.
    #[error("The token is not known here.")]
    Unknown,
    /// It has ended, or has not begun.
    #[error("The token has expired, or is not good yet.")]
    Expired,
    /// It was made for another server.
    #[error("The token was made for another server.")]
    Audience,
    /// It is good, but lacks scopes.
    #[error("The token lacks a scope that this server needs: {}.", .0.join(" "))]
    Scope(Vec<String>),
    /// It cannot be checked at the moment.
    #[error("The token cannot be checked at the moment; try again later.")]
    Unavailable,
}

/// How one gets a token that is good here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Who gives out tokens, by the URLs of the issuers.
    pub authorization_servers: Vec<String>,
    /// The scopes a token needs to be let in at all.
    pub required_scopes: Vec<String>,
    /// The scopes that mean something here.
    pub scopes: Vec<String>,
}
