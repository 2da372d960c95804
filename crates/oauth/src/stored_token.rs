//! The stored token of one server: access and refresh token, client and issuer.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_flow_client::authorizer::Credential;
use serde::{Deserialize, Serialize};

use crate::assertion_grant::AssertionGrant;
use crate::dpop::{BoundToken, DpopKey};
use crate::error::OAuthError;

/// A token with the data needed to use and refresh it. Serialized in the token file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredToken {
    pub(crate) client: StoredClient,
    /// Issuer of the token. Its secrets are sent to no other server.
    pub(crate) issuer: Option<String>,
    access: String,
    refresh: Option<String>,
    /// Expiry in seconds since 1970.
    expires: Option<u64>,
    granted: Vec<String>,
    pub(crate) requested: Vec<String>,
    /// Set if the authorization server may be in a private network while the server is public.
    #[serde(default)]
    pub(crate) is_private: bool,
    /// Key that the token is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dpop: Option<DpopKey>,
}

/// Client that the token was issued to.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// Private key in PEM, in place of a secret.
    pub(crate) key: Option<String>,
    /// Redirect URI; `None` for grants without a user.
    pub(crate) redirect: Option<String>,
    /// Assertion with which the client obtains tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) assertion: Option<AssertionGrant>,
}

impl StoredClient {
    /// Returns the secrets to redact from messages.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        [&self.secret, &self.key].into_iter().flatten().map(String::as_str)
    }
}

/// A grant, without its token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Granted scopes, as far as known.
    pub scopes: Vec<String>,
    /// Expiry of the access token.
    pub expires: Option<SystemTime>,
    /// Set if it is refreshed automatically.
    pub is_refreshed: bool,
    /// Issuer of the token.
    pub issuer: Option<String>,
}

/// Response of a token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    scope: Option<String>,
}

impl StoredToken {
    /// Reads the response of a token endpoint.
    pub(crate) fn read(
        client: StoredClient,
        issuer: Option<String>,
        requested: Vec<String>,
        key: Option<&DpopKey>,
        response: &[u8],
    ) -> Result<Self, OAuthError> {
        // The parser's error could contain the token.
        let response: TokenResponse = serde_json::from_slice(response)
            .map_err(|_| OAuthError::Refused("the response is not a token response".to_owned()))?;
        let is_bound = response.token_type.eq_ignore_ascii_case("dpop");
        let dpop = key.filter(|_| is_bound).cloned();
        if dpop.is_none() && !response.token_type.eq_ignore_ascii_case("bearer") {
            let what = "the token is neither a Bearer token nor bound to this client's key";
            return Err(OAuthError::Refused(what.to_owned()));
        }
        let is_sendable = !response.access_token.is_empty()
            && response.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable {
            return Err(OAuthError::Refused("the token cannot be sent in a header".to_owned()));
        }
        let scopes = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            client,
            issuer,
            expires: response.expires_in.map(|seconds| now().saturating_add(seconds)),
            // RFC 6749, 5.1: without a scope member, the requested scopes are granted.
            granted: response.scope.as_deref().map_or_else(|| requested.clone(), scopes),
            requested,
            is_private: false,
            dpop,
            access: response.access_token,
            refresh: response.refresh_token,
        })
    }

    /// Reads the response to a refresh of this token.
    pub(crate) fn refreshed(&self, response: &[u8]) -> Result<Self, OAuthError> {
        let (client, issuer) = (self.client.clone(), self.issuer.clone());
        let (granted, key) = (self.granted.clone(), self.dpop.as_ref());
        let refreshed = Self::read(client, issuer, granted, key, response)?;
        if refreshed.dpop != self.dpop {
            return Err(OAuthError::Refused(NOT_BOUND.to_owned()));
        }
        Ok(Self {
            requested: self.requested.clone(),
            // RFC 6749, 6: without a new refresh token the old one stays valid.
            refresh: refreshed.refresh.clone().or_else(|| self.refresh.clone()),
            ..refreshed
        })
    }

    /// Returns the refresh token.
    pub(crate) fn refresh_token(&self) -> Option<&str> {
        self.refresh.as_deref()
    }

    /// Returns the granted scopes.
    pub(crate) fn scopes(&self) -> &[String] {
        &self.granted
    }

    pub(crate) fn credential(&self) -> Credential {
        match &self.dpop {
            None => Credential::bearer(&self.access),
            Some(key) => {
                let proofs = BoundToken { key: key.clone(), token: self.access.clone() };
                Credential::bound(&self.access, Arc::new(proofs))
            }
        }
    }

    /// Returns whether the token has expired or is about to.
    pub(crate) fn is_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires < now().saturating_add(EXPIRY_MARGIN))
    }

    /// Returns whether a new token can be obtained without a user.
    pub(crate) fn can_refresh(&self) -> bool {
        self.refresh.is_some() || self.is_unattended()
    }

    /// Returns whether the token is from a grant without a user, which can be repeated.
    pub(crate) fn is_unattended(&self) -> bool {
        self.client.redirect.is_none()
    }

    /// Returns the tokens with their RFC 7009 type hints, the refresh token first.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let refresh = self.refresh.as_deref().map(|token| ("refresh_token", token));
        refresh.into_iter().chain([("access_token", self.access.as_str())])
    }

    /// Returns the secrets to redact from messages.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let refresh = self.refresh.as_deref();
        [self.access.as_str()].into_iter().chain(refresh).chain(self.client.secrets()).collect()
    }

    pub(crate) fn grant(&self) -> Grant {
        let expires = self.expires.map(Duration::from_secs);
        Grant {
            scopes: self.granted.clone(),
            expires: expires.and_then(|time| UNIX_EPOCH.checked_add(time)),
            is_refreshed: self.can_refresh(),
            issuer: self.issuer.clone(),
        }
    }
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoredToken")
            .field("client", &self.client.id)
            .field("issuer", &self.issuer)
            .field("expires", &self.expires)
            .field("granted", &self.granted)
            .finish_non_exhaustive()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(crate) const NOT_BOUND: &str = "it issued a token that is not bound to this client's key \
                                    (DPoP), although that is required";

/// Seconds before expiry at which a token counts as expired: requests take time, and clocks differ.
const EXPIRY_MARGIN: u64 = 30;

#[cfg(test)]
mod tests {
    use super::{DpopKey, StoredClient, StoredToken};

    fn read(response: &str) -> Result<StoredToken, String> {
        let client = StoredClient {
            id: "me".to_owned(),
            secret: Some("s3cret".to_owned()),
            redirect: Some("http://127.0.0.1/".to_owned()),
            ..StoredClient::default()
        };
        let requested = vec!["asked".to_owned()];
        StoredToken::read(client, None, requested, None, response.as_bytes())
            .map_err(|error| error.to_string())
    }

    /// MCP-090: token responses are read by the RFC, and their secrets are not shown.
    #[test]
    fn token_responses_are_read_by_the_rfc() {
        let stored = read(r#"{"access_token":"t0ken","token_type":"bearer"}"#).unwrap();
        assert!(!stored.is_expired() && !stored.can_refresh());
        assert_eq!(stored.grant().scopes, ["asked"]);
        let stored = read(
            r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":29,
                "refresh_token":"r3fresh","scope":"a b"}"#,
        )
        .unwrap();
        assert!(stored.is_expired() && stored.can_refresh());
        assert_eq!(stored.grant().scopes, ["a", "b"]);
        let shown = format!("{stored:?} {:?} {:?}", stored.grant(), stored.credential());
        for secret in ["t0ken", "r3fresh", "s3cret"] {
            assert!(stored.secrets().contains(&secret) && !shown.contains(secret), "{shown}");
        }
        for bad in [
            "",
            "{}",
            r#"{"access_token":["t0ken"],"token_type":"bearer"}"#,
            r#"{"access_token":"","token_type":"bearer"}"#,
            r#"{"access_token":"t0ken\r\nX-Role: admin","token_type":"bearer"}"#,
            r#"{"access_token":"t0ken","token_type":"DPoP"}"#,
        ] {
            let shown = read(bad).unwrap_err();
            assert!(!shown.contains("t0ken"), "{shown}");
        }
        let narrow = r#"{"access_token":"n3w","token_type":"bearer"}"#.as_bytes();
        let refreshed = stored.refreshed(narrow).unwrap();
        assert_eq!(refreshed.refresh_token(), Some("r3fresh"));
        assert_eq!(
            (refreshed.scopes(), &refreshed.requested),
            (stored.scopes(), &stored.requested)
        );
        let rotated = r#"{"access_token":"n3w","token_type":"bearer","refresh_token":"r0tated"}"#;
        let rotated = stored.refreshed(rotated.as_bytes()).unwrap();
        assert_eq!(rotated.refresh_token(), Some("r0tated"));
        let forever =
            r#"{"access_token":"t","token_type":"bearer","expires_in":18446744073709551615}"#;
        assert!(!read(forever).unwrap().is_expired());
    }

    /// A token is bound only if the authorization server says so, and stays bound when it is
    /// refreshed.
    #[test]
    fn bound_tokens_stay_bound() {
        let key = DpopKey::generate().unwrap();
        let response = |kind: &str| {
            format!(r#"{{"access_token":"t0ken","token_type":"{kind}","refresh_token":"r"}}"#)
        };
        let read = |kind: &str| {
            let client = StoredClient::default();
            StoredToken::read(client, None, Vec::new(), Some(&key), response(kind).as_bytes())
        };
        let bound = read("DPoP").unwrap();
        assert_eq!(bound.credential().header(), "DPoP t0ken");
        let proof = bound.credential().sign_proof("POST", "https://a.example/mcp").unwrap();
        assert!(proof.is_some_and(|proof| proof.split('.').count() == 3));
        let plain = read("Bearer").unwrap();
        assert_eq!(plain.credential().header(), "Bearer t0ken");
        assert!(bound.refreshed(response("dpop").as_bytes()).unwrap().dpop.is_some());
        assert!(bound.refreshed(response("Bearer").as_bytes()).is_err());
        let stored: StoredToken =
            serde_json::from_str(&serde_json::to_string(&bound).unwrap()).unwrap();
        assert_eq!(stored, bound);
    }
}
