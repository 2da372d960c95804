//! One issuer of signed tokens: its settings, its keys, its tokens.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

pub use jsonwebtoken::Algorithm;
use jsonwebtoken::{Header, decode};
use mcp_flow_http::client::{Document, HttpOptions, Trust};
use mcp_flow_server::Principal;
use mcp_flow_server::identity::TokenRejected;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::claims::{self, Claims};
use crate::keys::{Key, KeyError, Keys};

/// What is known of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// What it is called here; its principals are `name:claim`.
    pub name: String,
    /// What its tokens say in `iss`.
    pub issuer: String,
    /// What they must say in `aud`, one of these.
    pub audience: Vec<String>,
    /// Where its keys are.
    pub keys: KeySource,
    /// How tokens may be signed. What has no public key is never accepted.
    pub algorithms: Vec<Algorithm>,
    /// The claim that names the principal, usually `sub`.
    pub principal_claim: String,
    /// The claim with the scopes, usually `scope`.
    pub scope_claim: String,
    /// Scopes without which a token is not enough.
    pub required_scopes: Vec<String>,
    /// How much clocks may differ.
    pub leeway: Duration,
    /// How often the keys are looked up again.
    pub refresh: Duration,
}

/// Where keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// In a file.
    File(PathBuf),
    /// At a URL, of a server whose certificate is trusted.
    Url(String, Trust),
}

/// An issuer and the keys it has at the moment.
pub(crate) struct Issuer {
    pub(crate) settings: IssuerSettings,
    keys: RwLock<Option<Keys>>,
    /// When they were last looked up; whoever holds this looks them up.
    looked: Mutex<Option<Instant>>,
    document: Option<Document>,
}

impl Issuer {
    /// Reads the keys if they are in a file; otherwise they are fetched when they are needed.
    pub(crate) fn new(settings: IssuerSettings) -> Result<Self, KeyError> {
        let document = match &settings.keys {
            KeySource::File(_) => None,
            KeySource::Url(url, trust) => {
                let options = HttpOptions::new().trust(trust.clone());
                let document = check_url(url)
                    .and_then(|()| Document::new(url, &options).map_err(|error| error.to_string()));
                Some(document.map_err(|problem| unreachable(&settings, problem))?)
            }
        };
        let issuer = Self { keys: RwLock::new(None), looked: Mutex::new(None), document, settings };
        if let KeySource::File(path) = &issuer.settings.keys {
            let text = std::fs::read(path).map_err(|error| error.to_string());
            issuer.take(text)?;
        }
        Ok(issuer)
    }

    /// Judges a token by the keys that are here. Without an answer its key is not among them.
    pub(crate) fn judge(
        &self,
        header: &Header,
        token: &str,
    ) -> Option<Result<Judged, TokenRejected>> {
        let key = self.keys().as_ref()?.find(header)?.clone();
        let validation = claims::validation(&self.settings, header);
        let decoded = decode::<Claims>(token, &key.decoding, &validation);
        let claims = match decoded {
            Ok(decoded) => decoded.claims,
            Err(error) => {
                tracing::debug!(%error, issuer = self.settings.name, "a token was refused");
                return Some(Err(claims::refusal(&error)));
            }
        };
        let principal = claims::principal(&self.settings, &claims);
        Some(principal.map(|principal| Judged { principal, key }))
    }

    /// As [`judge`](Self::judge), looking for new keys first where it has none.
    pub(crate) async fn judge_with_new_keys(
        &self,
        header: &Header,
        token: &str,
    ) -> Result<Judged, TokenRejected> {
        // Tokens by keys nobody has must not make us ask all the time.
        if let Err(error) = self.look_up(PAUSE).await {
            tracing::warn!(%error, "an issuer's keys could not be looked up");
        }
        let is_without = self.keys().is_none();
        let unjudged = if is_without { TokenRejected::Unavailable } else { TokenRejected::Unknown };
        self.judge(header, token).unwrap_or(Err(unjudged))
    }

    /// Looks up the keys, unless that was done within this time.
    pub(crate) async fn look_up(&self, pause: Duration) -> Result<(), KeyError> {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        *looked = Some(Instant::now());
        let text = match (&self.document, &self.settings.keys) {
            (Some(document), _) => {
                let fetched = tokio::time::timeout(FETCH_TIME, document.fetch(LARGEST)).await;
                fetched.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
            }
            (None, KeySource::File(path)) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                read.unwrap_or_else(|error| Err(std::io::Error::other(error)))
                    .map_err(|error| error.to_string())
            }
            (None, KeySource::Url(..)) => return Ok(()),
        };
        self.take(text)
    }

    /// Whether a key is still one of its own.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.keys().as_ref().is_none_or(|keys| keys.have(key))
    }

    /// Uses other keys from now on. When there are none to be had, the old ones are kept.
    fn take(&self, text: Result<Vec<u8>, String>) -> Result<(), KeyError> {
        let keys = text.and_then(|text| Keys::read(&text, &self.settings.algorithms));
        let keys = keys.map_err(|problem| unreachable(&self.settings, problem))?;
        if keys.is_empty() {
            return Err(KeyError::None(self.settings.name.clone()));
        }
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(keys);
        Ok(())
    }

    fn keys(&self) -> Option<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A good token: whom it stands for, and the key that says so.
pub(crate) struct Judged {
    pub(crate) principal: Principal,
    pub(crate) key: Arc<Key>,
}

/// Who can change keys on the way can make tokens, so they travel encrypted or not at all.
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
    Err("keys are fetched by https only".to_owned())
}

fn unreachable(settings: &IssuerSettings, problem: String) -> KeyError {
    let place = match &settings.keys {
        KeySource::File(path) => path.display().to_string(),
        KeySource::Url(url, _) => url.clone(),
    };
    KeyError::Unreachable { issuer: settings.name.clone(), place, problem }
}

/// How long after one look for keys the next may follow that a token asks for.
const PAUSE: Duration = Duration::from_secs(10);

/// How long keys may be on their way.
const FETCH_TIME: Duration = Duration::from_secs(10);

/// The longest set of keys, in bytes.
const LARGEST: usize = 1024 * 1024;
