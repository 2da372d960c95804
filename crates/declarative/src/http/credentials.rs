//! Credentials of requests: bearer tokens, passwords, and tokens of the client credentials grant.

use std::collections::HashMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use mcp_flow_http_client::Fetch;
use mcp_flow_server::tool::Failure;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::model::{ClientCredentials, HttpAction, HttpAuth};
use crate::secret::{Masker, Secret, SecretSource};

/// Tokens that were granted, until they expire.
#[derive(Debug, Default)]
pub(super) struct TokenCache {
    tokens: Mutex<HashMap<String, (Secret, Instant)>>,
}

/// Response of a token endpoint.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl TokenCache {
    /// Returns whether the credentials of a tool can be replaced by others.
    pub(super) fn is_renewable(http: &HttpAction) -> bool {
        matches!(http.auth, Some(HttpAuth::ClientCredentials(_)))
    }

    /// Returns the value of the `Authorization` header.
    pub(super) async fn authorize(
        &self,
        http: &HttpAction,
        fetch: &Fetch,
        renew: bool,
    ) -> Result<Option<Secret>, Failure> {
        let unavailable = |message: String| Failure::new("UNAVAILABLE", message);
        Ok(match &http.auth {
            None => None,
            Some(HttpAuth::Bearer(source)) => {
                let secret = source.read().map_err(unavailable)?;
                Some(Secret::new(format!("Bearer {}", secret.expose())))
            }
            Some(HttpAuth::Basic { username, password }) => {
                let username = username.read().map_err(unavailable)?;
                let password = password.as_ref().map(SecretSource::read).transpose();
                let password = password.map_err(unavailable)?;
                let password = password.as_ref().map_or("", Secret::expose);
                let pair = STANDARD.encode(format!("{username}:{password}"));
                Some(Secret::new(format!("Basic {pair}")))
            }
            Some(HttpAuth::ClientCredentials(grant)) => {
                Some(self.granted(grant, fetch, renew).await?)
            }
        })
    }

    async fn granted(
        &self,
        grant: &ClientCredentials,
        fetch: &Fetch,
        renew: bool,
    ) -> Result<Secret, Failure> {
        let unavailable = |message: String| Failure::new("UNAVAILABLE", message);
        let client_id = grant.client_id.read().map_err(unavailable)?;
        let key = format!("{} {client_id} {}", grant.token_url, grant.scope);
        let known = self.tokens.lock().get(&key).cloned();
        if let Some((token, _)) = known.filter(|(_, until)| !renew && *until > Instant::now()) {
            return Ok(token);
        }
        let secret = grant.client_secret.read().map_err(unavailable)?;
        let masker = Masker::new([&secret]);
        let failed = |what: String| {
            Failure::new("UNAVAILABLE", format!("no token was granted: {}", masker.text(&what)))
        };
        let mut fields = vec![("grant_type", "client_credentials")];
        if !grant.scope.is_empty() {
            fields.push(("scope", &grant.scope));
        }
        let form = Serializer::new(String::new()).extend_pairs(fields).finish();
        // RFC 6749, 2.3.1: both are form-encoded before base64.
        let escaped = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        let pair = format!("{}:{}", escaped(&client_id), escaped(secret.expose()));
        let request = Request::post(grant.token_url.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)))
            .body(Bytes::from(form))
            .map_err(|error| failed(error.to_string()))?;
        let response = fetch.send(request).await.map_err(|error| failed(error.to_string()))?;
        if !response.status().is_success() {
            let body = String::from_utf8_lossy(response.body()).into_owned();
            return Err(failed(format!("{} {body}", response.status())));
        }
        let granted: Granted = serde_json::from_slice(response.body())
            .map_err(|_| failed("the response has no access_token".to_owned()))?;
        let kind = granted.token_type.as_deref().unwrap_or("Bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(failed(format!("tokens of type {kind} are not supported")));
        }
        let lifetime = Duration::from_secs(granted.expires_in.unwrap_or(LIFETIME).min(DAY));
        let until = Instant::now() + lifetime.saturating_sub(MARGIN);
        let token = Secret::new(format!("Bearer {}", granted.access_token));
        self.tokens.lock().insert(key, (token.clone(), until));
        Ok(token)
    }
}

/// Seconds that a token is used whose lifetime is not stated.
const LIFETIME: u64 = 300;

const DAY: u64 = 24 * 60 * 60;

/// Time before its expiry from which a token is not used.
const MARGIN: Duration = Duration::from_secs(30);
