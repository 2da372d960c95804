//! Interface between transports and authorization.
//!
//! A transport asks an [`Authorizer`] for a credential before each request and reports refusals to
//! it. Transports know nothing of OAuth, authorizers nothing of requests.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::transport::TransportError;

/// Provides the credentials for one server.
///
/// Transports check [`is_for`](Self::is_for) before they send a credential, so that it reaches no
/// other server.
pub trait Authorizer: fmt::Debug + Send + Sync + 'static {
    /// Returns whether the credential may be sent to this URL: the server's, or another of the same
    /// origin.
    fn is_for(&self, address: &str) -> bool;

    /// The credential for the next request; `None` sends none.
    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, TransportError>>;

    /// Handles a refused request. Returns whether to send it again with a new
    /// [`credential`](Self::credential); an error replaces the refusal.
    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'_, Result<bool, TransportError>>;
}

/// Value of an `Authorization` header. `Debug` does not show it.
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

/// A response that refuses a credential, or the lack of one.
#[derive(Clone, Debug)]
pub struct CredentialRefusal {
    /// The credential that was sent.
    pub shown: Option<Credential>,
    /// HTTP status: 401 for an invalid credential, 403 for insufficient scope.
    pub status: u16,
    /// The server's `WWW-Authenticate` headers.
    pub challenges: Vec<String>,
}

/// Maximum number of times a request is sent again with a new credential: once for an expired
/// token, once for insufficient scope.
pub const MAX_REPETITIONS: usize = 2;
