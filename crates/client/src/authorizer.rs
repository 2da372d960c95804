//! Interface between transports and authorization.
//!
//! A transport asks an [`Authorizer`] for a credential before each request and reports refusals to
//! it. Transports know nothing of OAuth, authorizers nothing of requests.

use std::fmt;
use std::sync::Arc;

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

/// Value of an `Authorization` header, and the proofs that must accompany it. `Debug` does not show
/// it.
#[derive(Clone)]
pub struct Credential {
    header: String,
    proofs: Option<Arc<dyn ProofSigner>>,
}

/// Signs proofs that the client holds the key of its token (DPoP, RFC 9449).
pub trait ProofSigner: Send + Sync + 'static {
    /// Signs a proof for one request: the value of its `DPoP` header.
    fn sign(&self, method: &str, url: &str) -> Result<String, TransportError>;

    /// Remembers the nonce of a `DPoP-Nonce` header of the server at this URL, for later proofs.
    fn set_nonce(&self, url: &str, nonce: &str);
}

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
        Self { header: format!("Bearer {token}"), proofs: None }
    }

    /// A token bound to a key: each request carries a proof signed by the key.
    pub fn bound(token: &str, proofs: Arc<dyn ProofSigner>) -> Self {
        Self { header: format!("DPoP {token}"), proofs: Some(proofs) }
    }

    /// The header's value.
    pub fn header(&self) -> &str {
        &self.header
    }

    /// Signs the proof for a request, the value of its `DPoP` header. None for a bearer token.
    pub fn sign_proof(&self, method: &str, url: &str) -> Result<Option<String>, TransportError> {
        self.proofs.as_ref().map(|proofs| proofs.sign(method, url)).transpose()
    }

    /// Remembers the `DPoP-Nonce` header of a response, for later proofs.
    pub fn set_nonce(&self, url: &str, nonce: &str) {
        if let Some(proofs) = &self.proofs {
            proofs.set_nonce(url, nonce);
        }
    }
}

/// Credentials are equal if their headers are.
impl PartialEq for Credential {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header
    }
}

impl Eq for Credential {}

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
/// token, once for insufficient scope, once for the nonce of a proof.
pub const MAX_REPETITIONS: usize = 3;
