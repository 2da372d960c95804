//! Proof of possession, DPoP (RFC 9449): the client's key, its proofs and the nonces of servers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_client::authorizer::ProofSigner;
use mcp_flow_client::transport::TransportError;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::assertion;
use crate::error::OAuthError;

/// Use of DPoP, which binds tokens to a key of this client: a stolen token is worthless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopPolicy {
    /// Binds tokens if both the server and its authorization server support it.
    #[default]
    Auto,
    /// Binds tokens, and rejects those that are not bound.
    Required,
    /// Never binds tokens.
    Off,
}

/// Key for ES256 that tokens are bound to. Stored with the token; clones share nonces.
#[derive(Clone, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct DpopKey(Arc<Inner>);

struct Inner {
    /// PKCS #8 in base64.
    encoded: String,
    pair: EcdsaKeyPair,
    /// Newest nonces by origin.
    nonces: Mutex<BTreeMap<String, String>>,
}

impl DpopKey {
    /// Generates a key.
    pub(crate) fn generate() -> Result<Self, OAuthError> {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| OAuthError::Key("no key can be generated".to_owned()))?;
        Self::try_from(URL_SAFE_NO_PAD.encode(key.as_ref()))
            .map_err(|problem| OAuthError::Key(problem.to_owned()))
    }

    /// Signs a proof for a request, and for the token that it carries.
    pub(crate) fn sign(
        &self,
        method: &str,
        url: &str,
        token: Option<&str>,
    ) -> Result<String, OAuthError> {
        let url = request_url(url).ok_or_else(|| OAuthError::InvalidServer(url.to_owned()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.public()});
        let mut claims = json!({
            "jti": assertion::random_id()?, "htm": method, "htu": url.as_str(), "iat": now,
        });
        if let Some(token) = token {
            claims["ath"] = URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes())).into();
        }
        if let Some(nonce) = self.0.nonces.lock().get(&origin(&url)) {
            claims["nonce"] = nonce.as_str().into();
        }
        assertion::encode(&header, &claims, |message| {
            let signature = self.0.pair.sign(&SystemRandom::new(), message);
            let failed = |_| OAuthError::Key("signing failed".to_owned());
            Ok(signature.map_err(failed)?.as_ref().to_vec())
        })
    }

    /// Remembers the nonce of the server at a URL. Returns whether it is a new one.
    pub(crate) fn set_nonce(&self, url: &str, nonce: &str) -> bool {
        let is_valid = (1..=MAX_NONCE).contains(&nonce.len())
            && nonce.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
        let Some(url) = request_url(url).filter(|_| is_valid) else { return false };
        let mut nonces = self.0.nonces.lock();
        // There are two servers; more would be those of earlier configurations.
        if nonces.len() >= MAX_ORIGINS && !nonces.contains_key(&origin(&url)) {
            nonces.clear();
        }
        nonces.insert(origin(&url), nonce.to_owned()).as_deref() != Some(nonce)
    }

    /// Returns the thumbprint of the key (RFC 7638).
    pub(crate) fn thumbprint(&self) -> String {
        // The members are in the order that the RFC asks for.
        let [x, y] = self.coordinates();
        let canonical = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()))
    }

    fn public(&self) -> Value {
        let [x, y] = self.coordinates();
        json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})
    }

    fn coordinates(&self) -> [String; 2] {
        // An uncompressed point: one byte, then the two coordinates.
        let point = self.0.pair.public_key().as_ref();
        let (x, y) = point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default();
        [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate))
    }
}

impl TryFrom<String> for DpopKey {
    type Error = &'static str;

    fn try_from(encoded: String) -> Result<Self, Self::Error> {
        let bad = "the DPoP key is not valid";
        let der = URL_SAFE_NO_PAD.decode(&encoded).map_err(|_| bad)?;
        let way = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_pkcs8(way, &der, &SystemRandom::new()).map_err(|_| bad)?;
        Ok(Self(Arc::new(Inner { encoded, pair, nonces: Mutex::default() })))
    }
}

impl From<DpopKey> for String {
    fn from(key: DpopKey) -> Self {
        key.0.encoded.clone()
    }
}

impl PartialEq for DpopKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.encoded == other.0.encoded
    }
}

impl Eq for DpopKey {}

impl fmt::Debug for DpopKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("DpopKey").field(&self.thumbprint()).finish()
    }
}

/// Token with the key it is bound to.
pub(crate) struct BoundToken {
    pub(crate) key: DpopKey,
    pub(crate) token: String,
}

impl ProofSigner for BoundToken {
    fn sign(&self, method: &str, url: &str) -> Result<String, TransportError> {
        Ok(self.key.sign(method, url, Some(&self.token))?)
    }

    fn set_nonce(&self, url: &str, nonce: &str) {
        self.key.set_nonce(url, nonce);
    }
}

/// Returns the URL of an HTTP request as proofs name it: without query and fragment, and with the
/// scheme of HTTP also for a WebSocket.
fn request_url(url: &str) -> Option<Url> {
    let url = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}"),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}"),
        _ => url.to_owned(),
    };
    let mut url = Url::parse(&url).ok()?;
    url.set_query(None);
    url.set_fragment(None);
    Some(url)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Limit on the length of a nonce.
const MAX_NONCE: usize = 512;

/// Limit on servers whose nonces are kept.
const MAX_ORIGINS: usize = 4;

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair as _, UnparsedPublicKey};
    use serde_json::{Value, json};

    use super::DpopKey;

    fn parts(proof: &str) -> (Value, Value) {
        let mut parts = proof.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap());
        let mut next = || serde_json::from_slice(&parts.next().unwrap()).unwrap_or_default();
        (next(), next())
    }

    /// A proof names its request and its token, is signed by the key in it, and is never the same.
    #[test]
    fn proofs_are_for_one_request() {
        let key = DpopKey::generate().unwrap();
        let url = "wss://Flow.example:443/ws?x=y#z";
        let proof = key.sign("GET", url, Some("t0ken")).unwrap();
        let (header, claims) = parts(&proof);
        assert_eq!((&header["typ"], &header["alg"]), (&"dpop+jwt".into(), &"ES256".into()));
        assert_eq!(header["jwk"].get("d"), None);
        assert_eq!(claims["htm"], "GET");
        assert_eq!(claims["htu"], "https://flow.example/ws");
        assert_eq!(claims["ath"].as_str().map(str::len), Some(43));
        let (signed, signature) = proof.rsplit_once('.').unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.0.pair.public_key())
            .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap())
            .unwrap();
        let (_, other) = parts(&key.sign("GET", url, None).unwrap());
        assert_ne!(other["jti"], claims["jti"]);
        assert_eq!(other.get("ath"), None);
    }

    /// A nonce is used for its own server only; one that is no nonce is ignored.
    #[test]
    fn nonces_belong_to_their_server() {
        let key = DpopKey::generate().unwrap();
        assert!(key.set_nonce("https://a.example/mcp?x", "first"));
        assert!(!key.set_nonce("https://a.example/other", "first"));
        assert!(key.set_nonce("https://a.example/other", "second"));
        for bad in ["", "a b", "a\"b", "a\r\n", &"x".repeat(513)] {
            assert!(!key.set_nonce("https://a.example", bad), "{bad}");
        }
        let nonce = |url: &str| parts(&key.sign("POST", url, None).unwrap()).1["nonce"].clone();
        assert_eq!(nonce("https://a.example/mcp"), "second");
        assert_eq!(nonce("https://b.example/mcp"), Value::Null);
        for number in 0..1000 {
            key.set_nonce(&format!("https://{number}.example"), "x");
        }
        assert!(key.0.nonces.lock().len() <= super::MAX_ORIGINS);
    }

    /// A key is the same after it was stored, and is not shown.
    #[test]
    fn keys_can_be_stored() {
        let key = DpopKey::generate().unwrap();
        let stored = serde_json::to_value(&key).unwrap();
        let again: DpopKey = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(key, again);
        assert_eq!(key.thumbprint(), again.thumbprint());
        assert!(!format!("{key:?}").contains(stored.as_str().unwrap()));
        assert!(serde_json::from_value::<DpopKey>(json!("AAAA")).is_err());
    }
}
