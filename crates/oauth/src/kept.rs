//! What is kept of one server: the token, what renews it, and for whom and by whom it was made.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcp_flow_client::authorizer::Credential;
use serde::{Deserialize, Serialize};

use crate::error::OAuthError;

/// A token with everything that belongs to it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) client: KeptClient,
    /// Who made the token. Nothing of this is shown to anybody else.
    pub(crate) issuer: Option<String>,
    access: String,
    refresh: Option<String>,
    /// When the token is over, in seconds since 1970.
    expires: Option<u64>,
    granted: Vec<String>,
    pub(crate) requested: Vec<String>,
    /// Whether whoever made it may be in a private network while the server is not.
    #[serde(default)]
    pub(crate) is_private: bool,
}

/// Who the authorization server takes us for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    /// A private key in PEM, in place of a secret.
    pub(crate) key: Option<String>,
    /// Where people are sent back to; none where no people are involved.
    pub(crate) redirect: Option<String>,
}

impl KeptClient {
    /// Returns what must not be written anywhere else.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        [&self.secret, &self.key].into_iter().flatten().map(String::as_str)
    }
}

/// What was granted, without the token.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Granted {
    /// What it is good for, if anything was said of that.
    pub scopes: Vec<String>,
    /// How long it is good.
    pub expires: Option<SystemTime>,
    /// Whether it is renewed by itself when it is over.
    pub is_renewed: bool,
    /// Who granted it.
    pub issuer: Option<String>,
}

/// What a token endpoint answers.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
    scope: Option<String>,
}

impl Kept {
    /// Takes a token as a token endpoint gives it.
    pub(crate) fn read(
        client: KeptClient,
        issuer: Option<String>,
        requested: Vec<String>,
        answer: &[u8],
    ) -> Result<Self, OAuthError> {
        // What the parser says of a token could be the token.
        let answer: Answer = serde_json::from_slice(answer).map_err(|_| {
            OAuthError::Refused("the answer holds no token in the usual form".to_owned())
        })?;
        if !answer.token_type.eq_ignore_ascii_case("bearer") {
            let what = "the token is of another type than Bearer".to_owned();
            return Err(OAuthError::Refused(what));
        }
        let is_sendable = !answer.access_token.is_empty()
            && answer.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_sendable {
            return Err(OAuthError::Refused("the token cannot be sent in a header".to_owned()));
        }
        let scopes = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Ok(Self {
            client,
            issuer,
            expires: answer.expires_in.map(|seconds| now().saturating_add(seconds)),
            // RFC 6749, 5.1: what is not said was granted as it was asked for.
            granted: answer.scope.as_deref().map_or_else(|| requested.clone(), scopes),
            requested,
            is_private: false,
            access: answer.access_token,
            refresh: answer.refresh_token,
        })
    }

    /// Takes a token in place of this one, as a token endpoint gives it for the refresh token.
    pub(crate) fn renewed(&self, answer: &[u8]) -> Result<Self, OAuthError> {
        let (client, issuer) = (self.client.clone(), self.issuer.clone());
        let renewed = Self::read(client, issuer, self.granted.clone(), answer)?;
        Ok(Self {
            requested: self.requested.clone(),
            // RFC 6749, 6: without a new refresh token the old one stays good.
            refresh: renewed.refresh.clone().or_else(|| self.refresh.clone()),
            ..renewed
        })
    }

    /// Returns the token that gets another one.
    pub(crate) fn refresh_token(&self) -> Option<&str> {
        self.refresh.as_deref()
    }

    /// Returns the scopes the token is good for.
    pub(crate) fn scopes(&self) -> &[String] {
        &self.granted
    }

    pub(crate) fn credential(&self) -> Credential {
        Credential::bearer(&self.access)
    }

    /// Whether the token is over, or will be before the next request is there.
    pub(crate) fn is_over(&self) -> bool {
        self.expires.is_some_and(|expires| expires < now().saturating_add(HEAD_START))
    }

    /// Whether a token can be had without a person.
    pub(crate) fn can_renew(&self) -> bool {
        self.refresh.is_some() || self.is_of_client()
    }

    /// Whether the token was given to the program itself and not to a person.
    pub(crate) fn is_of_client(&self) -> bool {
        self.client.redirect.is_none()
    }

    /// Everything that could be used, by the names RFC 7009 has for it, the most lasting first.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let refresh = self.refresh.as_deref().map(|token| ("refresh_token", token));
        refresh.into_iter().chain([("access_token", self.access.as_str())])
    }

    /// What must not be written anywhere else.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let refresh = self.refresh.as_deref();
        [self.access.as_str()].into_iter().chain(refresh).chain(self.client.secrets()).collect()
    }

    pub(crate) fn granted(&self) -> Granted {
        let expires = self.expires.map(Duration::from_secs);
        Granted {
            scopes: self.granted.clone(),
            expires: expires.and_then(|time| UNIX_EPOCH.checked_add(time)),
            is_renewed: self.can_renew(),
            issuer: self.issuer.clone(),
        }
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Kept")
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

/// How long before its end a token is renewed, in seconds: requests take time, and clocks differ.
const HEAD_START: u64 = 30;

#[cfg(test)]
mod tests {
    use super::{Kept, KeptClient};

    fn read(answer: &str) -> Result<Kept, String> {
        let client = KeptClient {
            id: "me".to_owned(),
            secret: Some("s3cret".to_owned()),
            key: None,
            redirect: Some("http://127.0.0.1/".to_owned()),
        };
        let requested = vec!["asked".to_owned()];
        Kept::read(client, None, requested, answer.as_bytes()).map_err(|error| error.to_string())
    }

    /// MCP-090: a token is taken as the endpoint means it, and shown to nobody.
    #[test]
    fn a_token_is_taken_as_it_is_meant() {
        let kept = read(r#"{"access_token":"t0ken","token_type":"bearer"}"#).unwrap();
        assert!(!kept.is_over() && !kept.can_renew());
        assert_eq!(kept.granted().scopes, ["asked"]);
        let kept = read(
            r#"{"access_token":"t0ken","token_type":"Bearer","expires_in":29,
                "refresh_token":"r3fresh","scope":"a b"}"#,
        )
        .unwrap();
        assert!(kept.is_over() && kept.can_renew());
        assert_eq!(kept.granted().scopes, ["a", "b"]);
        let told = format!("{kept:?} {:?} {:?}", kept.granted(), kept.credential());
        for secret in ["t0ken", "r3fresh", "s3cret"] {
            assert!(kept.secrets().contains(&secret) && !told.contains(secret), "{told}");
        }
        for bad in [
            "",
            "{}",
            r#"{"access_token":["t0ken"],"token_type":"bearer"}"#,
            r#"{"access_token":"","token_type":"bearer"}"#,
            r#"{"access_token":"t0ken\r\nX-Role: admin","token_type":"bearer"}"#,
            r#"{"access_token":"t0ken","token_type":"DPoP"}"#,
        ] {
            let told = read(bad).unwrap_err();
            assert!(!told.contains("t0ken"), "{told}");
        }
        let narrow = r#"{"access_token":"n3w","token_type":"bearer"}"#.as_bytes();
        let renewed = kept.renewed(narrow).unwrap();
        assert_eq!(renewed.refresh_token(), Some("r3fresh"));
        assert_eq!((renewed.scopes(), &renewed.requested), (kept.scopes(), &kept.requested));
        let rotated = r#"{"access_token":"n3w","token_type":"bearer","refresh_token":"r0tated"}"#;
        let rotated = kept.renewed(rotated.as_bytes()).unwrap();
        assert_eq!(rotated.refresh_token(), Some("r0tated"));
        let forever =
            r#"{"access_token":"t","token_type":"bearer","expires_in":18446744073709551615}"#;
        assert!(!read(forever).unwrap().is_over());
    }
}
