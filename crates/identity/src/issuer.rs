//! An issuer of JWTs: its settings and key set, and verification of its tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{Header, decode};
use mcp_flow_http_client::{HttpOptions, JsonEndpoint, Trust};
use mcp_flow_principal::Principal;
use mcp_flow_principal::TokenRejected;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::claims::{self, Claims};
use crate::keys::{Key, KeyError, Keys};

/// Settings of one issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// Local name; its principals are called `name:claim`.
    pub name: String,
    /// Expected `iss` claim.
    pub issuer: String,
    /// Accepted values of the `aud` claim.
    pub audience: Vec<String>,
    /// Source of its key set.
    pub keys: KeySource,
    /// Accepted signature algorithms. Symmetric algorithms are never accepted.
    pub algorithms: Vec<Algorithm>,
    /// Claim that names the principal, usually `sub`.
    pub principal_claim: String,
    /// Claim with the scopes, usually `scope`.
    pub scope_claim: String,
    /// Scopes that every token must have.
    pub required_scopes: Vec<String>,
    /// Allowed clock skew.
    pub leeway: Duration,
    /// Interval at which the key set is refreshed.
    pub refresh: Duration,
}

/// Source of a key set (JWKS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file.
    File(PathBuf),
    /// A URL, and the trusted certificates of its server.
    Url(String, Trust),
}

/// An issuer and its current key set.
pub(crate) struct Issuer {
    pub(crate) settings: IssuerSettings,
    keys: RwLock<Option<Keys>>,
    /// Time of the last fetch. The lock is held while fetching, so that one fetch runs at a time.
    fetched: Mutex<Option<Instant>>,
    endpoint: Option<JsonEndpoint>,
}

impl Issuer {
    /// Creates an issuer. Reads the key set from a file; at a URL, it is fetched when needed.
    pub(crate) fn new(settings: IssuerSettings) -> Result<Self, KeyError> {
        let endpoint = match &settings.keys {
            KeySource::File(_) => None,
            KeySource::Url(url, trust) => {
                let options = HttpOptions::new().trust(trust.clone());
                let endpoint = check_url(url).and_then(|()| {
                    JsonEndpoint::new(url, &options).map_err(|error| error.to_string())
                });
                Some(endpoint.map_err(|problem| unavailable(&settings, problem))?)
            }
        };
        let (keys, fetched) = (RwLock::new(None), Mutex::new(None));
        let issuer = Self { keys, fetched, endpoint, settings };
        if let KeySource::File(path) = &issuer.settings.keys {
            let text = std::fs::read(path).map_err(|error| error.to_string());
            issuer.set_keys(text)?;
        }
        Ok(issuer)
    }

    /// Verifies a token with the current key set. Returns `None` if its key is not in the set.
    pub(crate) fn verify(
        &self,
        header: &Header,
        token: &str,
    ) -> Option<Result<VerifiedToken, TokenRejected>> {
        let key = self.keys.read().as_ref()?.find(header)?.clone();
        let validation = claims::validation(&self.settings, header);
        let decoded = decode::<Claims>(token, &key.decoding, &validation);
        let claims = match decoded {
            Ok(decoded) => decoded.claims,
            Err(error) => {
                tracing::debug!(%error, issuer = self.settings.name, "token rejected");
                return Some(Err(claims::rejection(&error)));
            }
        };
        let principal = claims::principal(&self.settings, &claims);
        Some(principal.map(|principal| VerifiedToken { principal, key }))
    }

    /// Verifies a token like [`verify`](Self::verify), after fetching the key set.
    pub(crate) async fn verify_with_new_keys(
        &self,
        header: &Header,
        token: &str,
    ) -> Result<VerifiedToken, TokenRejected> {
        // Rate-limited: tokens with unknown keys must not cause a fetch each.
        if let Err(error) = self.fetch_keys(MINIMUM_INTERVAL).await {
            tracing::warn!(%error, "cannot fetch the keys of an issuer");
        }
        let otherwise = match self.keys.read().is_none() {
            true => TokenRejected::Unavailable,
            false => TokenRejected::Unknown,
        };
        self.verify(header, token).unwrap_or(Err(otherwise))
    }

    /// Fetches the key set, unless the last fetch was within this interval.
    pub(crate) async fn fetch_keys(&self, interval: Duration) -> Result<(), KeyError> {
        let mut fetched = self.fetched.lock().await;
        if fetched.is_some_and(|at| at.elapsed() < interval) {
            return Ok(());
        }
        *fetched = Some(Instant::now());
        let text = match (&self.endpoint, &self.settings.keys) {
            (Some(endpoint), _) => {
                let text = tokio::time::timeout(FETCH_TIMEOUT, endpoint.get(MAX_KEY_SET)).await;
                text.unwrap_or_else(|_| Err("the request timed out".to_owned())).map(Vec::from)
            }
            (None, KeySource::File(path)) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                read.unwrap_or_else(|error| Err(std::io::Error::other(error)))
                    .map_err(|error| error.to_string())
            }
            (None, KeySource::Url(..)) => return Ok(()),
        };
        self.set_keys(text)
    }

    /// Returns whether a key is in the current set.
    pub(crate) fn has_key(&self, key: &Key) -> bool {
        self.keys.read().as_ref().is_none_or(|keys| keys.contains(key))
    }

    /// Replaces the key set. On an error the old keys stay.
    fn set_keys(&self, text: Result<Vec<u8>, String>) -> Result<(), KeyError> {
        let keys = text.and_then(|text| Keys::read(&text, &self.settings.algorithms));
        let keys = keys.map_err(|problem| unavailable(&self.settings, problem))?;
        if keys.is_empty() {
            return Err(KeyError::None(self.settings.name.clone()));
        }
        *self.keys.write() = Some(keys);
        Ok(())
    }
}

/// A verified token: its principal, and the key that signed it.
pub(crate) struct VerifiedToken {
    pub(crate) principal: Principal,
    pub(crate) key: Arc<Key>,
}

/// Checks that a key set is fetched over https: whoever can change keys in transit can forge tokens.
fn check_url(url: &str) -> Result<(), String> {
    let url = url::Url::parse(url).map_err(|error| error.to_string())?;
    let is_loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() == "https" || (url.scheme() == "http" && is_loopback) {
        return Ok(());
    }
    Err("keys are fetched over https only".to_owned())
}

fn unavailable(settings: &IssuerSettings, problem: String) -> KeyError {
    let location = match &settings.keys {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Url(url, _) => url.clone(),
    };
    KeyError::Unavailable { issuer: settings.name.clone(), location, problem }
}

/// Minimum interval between fetches that tokens with unknown keys cause.
const MINIMUM_INTERVAL: Duration = Duration::from_secs(10);

/// Time limit for fetching a key set.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit on the size of a key set, in bytes.
const MAX_KEY_SET: usize = 1024 * 1024;
