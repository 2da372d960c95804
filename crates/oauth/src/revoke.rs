//! Giving a token back, so that nobody can use it any more (RFC 7009).

use crate::bounds;
use crate::error::OAuthError;
use crate::grant::AuthorizationServer;
use crate::kept::Kept;

/// What became of a token that is not wanted any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Returned {
    /// Whoever made it was told, and takes it from nobody.
    Revoked,
    /// It is gone here, but whoever made it takes it until its time is over, for this reason.
    Forgotten(String),
}

impl AuthorizationServer {
    /// Tells the authorization server that a token is not wanted any more, and first what renews it:
    /// with that, most take back everything that came of it.
    pub(crate) async fn revoke(&self, kept: &Kept) -> Result<(), OAuthError> {
        // What was given out by one authorization server is not shown to another.
        if self.check_same(kept).is_err() {
            let what = "the server names another authorization server than the one that made it";
            return Err(OAuthError::OutOfBounds(what.to_owned()));
        }
        let Some(endpoint) = &self.metadata.revocation_endpoint else {
            return Err(OAuthError::Refused("it takes no token back".to_owned()));
        };
        bounds::check("the address to give tokens back at", endpoint)?;
        let secrets = kept.secrets();
        let mut outcome = Ok(());
        for (kind, token) in kept.tokens() {
            let fields = [("token", token), ("token_type_hint", kind)];
            let asked = self.request_revocation(endpoint, &kept.client, &fields, &secrets);
            // Some take back one kind only; the other is tried all the same.
            outcome = outcome.and(asked.await.map(drop).map_err(OAuthError::from));
        }
        outcome
    }
}
