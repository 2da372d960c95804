//! The seam between transports and whatever knows who is calling.
//!
//! A transport that can show a credential asks an [`Authorizer`] for one before each request, and
//! tells it when the server was not content. Neither knows how the other does its work: here nothing
//! is known of OAuth, there nothing of requests.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::transport::TransportError;

/// Knows what one server wants to see of who is calling.
///
/// A credential is shown to the server it is for and to no other; transports ask before they do.
pub trait Authorizer: fmt::Debug + Send + Sync + 'static {
    /// Whether the credential may be shown at this address: that of the server it is for, or another
    /// of the same origin.
    fn is_for(&self, address: &str) -> bool;

    /// What to show with the next request. `None` goes without.
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, TransportError>>;

    /// The server refused a request. Says whether it is worth sending it again, with what
    /// [`credential`](Self::credential) gives by then; an error takes the place of the refusal.
    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Result<bool, TransportError>>;
}

/// The value of an `Authorization` header, which is not written anywhere else.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

impl Credential {
    /// A bearer token.
    ///
    /// ```
    /// use mcp_flow_client::authorizer::Credential;
    ///
    /// let credential = Credential::bearer("secret");
    /// assert_eq!(credential.header(), "Bearer secret");
    /// assert!(!format!("{credential:?}").contains("secret"));
    /// ```
    pub fn bearer(token: &str) -> Self {
        Self(format!("Bearer {token}"))
    }

    /// The header's value.
    pub fn header(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credential(hidden)")
    }
}

/// A server that was not content with a credential, or with there being none.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// What was shown.
    pub shown: Option<Credential>,
    /// The status: 401 for one that is not good, 403 for one that does not reach far enough.
    pub status: u16,
    /// The server's `WWW-Authenticate` headers.
    pub challenges: Vec<String>,
}

/// How often one request is sent again because the server was not content with the credential:
/// once for a token that is over, and once for one that does not reach far enough.
pub const MOST_REPETITIONS: usize = 2;
