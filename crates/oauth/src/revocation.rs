//! Token revocation (RFC 7009).

use crate::address_policy;
use crate::error::OAuthError;
use crate::grant::AuthorizationServer;
use crate::stored_token::StoredToken;

/// Result of a logout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revocation {
    /// The authorization server has revoked the token.
    Revoked,
    /// The stored token is removed, but stays valid until it expires, for this reason.
    Failed(String),
}

impl AuthorizationServer {
    /// Revokes the refresh token, then the access token: most servers revoke all tokens of a grant
    /// with its refresh token.
    pub(crate) async fn revoke(&self, stored: &StoredToken) -> Result<(), OAuthError> {
        // A token is sent only to the authorization server that issued it.
        if self.check_same(stored).is_err() {
            let what = "the server names another authorization server than the token's issuer";
            return Err(OAuthError::Untrusted(what.to_owned()));
        }
        let Some(endpoint) = &self.metadata.revocation_endpoint else {
            return Err(OAuthError::Refused("it has no revocation endpoint".to_owned()));
        };
        address_policy::check_url("the revocation endpoint", endpoint)?;
        let secrets = stored.secrets();
        let mut outcome = Ok(());
        for (kind, token) in stored.tokens() {
            let fields = [("token", token), ("token_type_hint", kind)];
            let asked = self.request_revocation(endpoint, &stored.client, &fields, &secrets);
            // Some servers revoke one kind only; the other is tried as well.
            outcome = outcome.and(asked.await.map(drop).map_err(OAuthError::from));
        }
        outcome
    }
}
