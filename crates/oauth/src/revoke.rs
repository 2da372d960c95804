//! Giving a token back, so that nobody can use it any more (RFC 7009).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use crate::assertion;
use crate::bounds;
use crate::error::OAuthError;
use crate::grant::{ASSERTION, Office, form};
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

impl Office {
    /// Tells the authorization server that a token is not wanted any more, and first what renews it:
    /// with that, most take back everything that came of it.
    pub(crate) async fn revoke(&self, kept: &Kept) -> Result<(), OAuthError> {
        // What was given out by one authorization server is not shown to another.
        if self.check_same(kept).is_err() {
            let what = "the server names another authorization server than the one that made it";
            return Err(OAuthError::OutOfBounds(what.to_owned()));
        }
        let named = self.metadata.additional_fields.get("revocation_endpoint");
        let Some(endpoint) = named.and_then(Value::as_str) else {
            return Err(OAuthError::Refused("it takes no token back".to_owned()));
        };
        bounds::check("the address to give tokens back at", endpoint)?;
        let mut outcome = Ok(());
        for (kind, token) in kept.tokens() {
            let (proof, authorization) = self.proof(kept)?;
            let fields = [("token", token), ("token_type_hint", kind)];
            let proof = proof.iter().map(|(name, value)| (*name, value.as_str()));
            let form = form(fields.into_iter().chain(proof));
            let posted = self.post(endpoint, form, authorization, &kept.secrets()).await;
            // Some take back one kind only; the other is tried all the same.
            outcome = outcome.and(posted.map(drop));
        }
        outcome
    }

    /// How the client shows that the token is its own: fields of the form, or a header.
    fn proof(&self, kept: &Kept) -> Result<Proof, OAuthError> {
        let client = &kept.client;
        let id = ("client_id", client.id.clone());
        if let Some(key) = &client.key {
            let assertion = assertion::sign(&client.id, self.audience(), key)?;
            let kind = ("client_assertion_type", ASSERTION.to_owned());
            return Ok((vec![id, kind, ("client_assertion", assertion)], None));
        }
        let Some(secret) = &client.secret else { return Ok((vec![id], None)) };
        if self.wants_secret_in_form() {
            return Ok((vec![id, ("client_secret", secret.clone())], None));
        }
        // RFC 6749, 2.3.1: both are written as in a form before they become a header.
        let escaped = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", escaped(&client.id), escaped(secret));
        Ok((Vec::new(), Some(format!("Basic {}", STANDARD.encode(pair)))))
    }

    fn wants_secret_in_form(&self) -> bool {
        let methods = |name| self.metadata.additional_fields.get(name).and_then(Value::as_array);
        let methods = methods("revocation_endpoint_auth_methods_supported")
            .or_else(|| methods("token_endpoint_auth_methods_supported"));
        let is_there = |method: &str| methods.is_some_and(|all| all.contains(&method.into()));
        is_there("client_secret_post") && !is_there("client_secret_basic")
    }
}

type Proof = (Vec<(&'static str, String)>, Option<String>);
