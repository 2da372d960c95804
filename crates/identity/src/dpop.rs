//! Proofs of possession, DPoP (RFC 9449): settings, and verification of a proof.
//!
//! A token that an authorization server has bound to a key (`cnf.jkt`) is accepted only beside a
//! proof: a JWT signed by that key for this method, URL and token, just now and for the first time.

mod nonce;
mod replay;
mod thumbprint;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use mcp_flow_principal::{ProofContext, ProofRejected};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use url::Url;

use crate::claims::Claims;
use nonce::NonceIssuer;
use replay::ReplayCache;
pub(crate) use thumbprint::is_thumbprint;

/// Rules for proofs of possession.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpopSettings {
    /// Accepts tokens of issuers only if they are bound to a key. Static tokens are not affected.
    pub is_required: bool,
    /// Requires proofs to contain a nonce of this server, so that none can be prepared in advance.
    pub requires_nonce: bool,
    /// Accepted signature algorithms. Symmetric algorithms are never accepted.
    pub algorithms: Vec<Algorithm>,
    /// Age up to which a proof is accepted.
    pub max_age: Duration,
}

impl Default for DpopSettings {
    fn default() -> Self {
        Self {
            is_required: false,
            requires_nonce: false,
            algorithms: vec![
                Algorithm::ES256,
                Algorithm::ES384,
                Algorithm::EdDSA,
                Algorithm::RS256,
                Algorithm::PS256,
            ],
            max_age: Duration::from_secs(120),
        }
    }
}

/// Verifies proofs, and remembers those it has accepted.
///
/// A process knows nothing of proofs that another one accepted before it. One that may be among them
/// therefore has to contain a nonce, even if nonces are not required.
pub(crate) struct ProofVerifier {
    replays: Mutex<ReplayCache>,
    nonces: NonceIssuer,
    /// Time since 1970 from which accepted proofs are remembered.
    started: Duration,
}

impl ProofVerifier {
    pub(crate) fn new() -> Self {
        Self { replays: Mutex::default(), nonces: NonceIssuer::new(), started: since_1970() }
    }

    /// Returns the nonce that proofs must contain now.
    pub(crate) fn nonce(&self) -> String {
        self.nonces.current(since_1970())
    }

    /// Verifies the proof of a request. Returns the nonce for the next proof, if it should change.
    ///
    /// Cheap checks come first; a proof is remembered only if everything else is right.
    pub(crate) fn verify(
        &self,
        settings: &DpopSettings,
        proof: &str,
        request: &ProofContext<'_>,
    ) -> Result<Option<String>, ProofRejected> {
        if proof.len() > MAX_PROOF {
            return Err(ProofRejected::TooLong);
        }
        let (algorithm, key) = read_header(settings, proof, request.thumbprint)?;
        let claims = verify_signature(proof, algorithm, &key)?;
        let issued = check_claims(settings, &claims, request)?;
        let has_nonce = claims.contains_key("nonce");
        let needs_nonce = settings.requires_nonce
            || self.may_be_replayed(issued, has_nonce, since_1970().as_secs_f64());
        let next = if needs_nonce { self.check_nonce(&claims)? } else { None };
        let id = claims.get("jti").and_then(Value::as_str);
        let id = id.filter(|id| (1..=MAX_ID).contains(&id.len()));
        let id = id.ok_or(ProofRejected::Malformed("it has no usable jti"))?;
        self.replays.lock().insert(request.thumbprint, id, settings.max_age + FUTURE)?;
        Ok(next)
    }

    /// Waits until proofs dated now, in whole seconds, are certainly younger than this verifier.
    pub(crate) async fn wait_for_fresh_proofs(&self) {
        let from = Duration::from_secs(self.started.as_secs() + 1);
        tokio::time::sleep(from.saturating_sub(since_1970()).min(Duration::from_secs(1))).await;
    }

    /// Returns whether another process may have accepted a proof before this one, or may find it valid
    /// after this one. The nonces of a process end with it.
    fn may_be_replayed(&self, issued: f64, has_nonce: bool, now: f64) -> bool {
        let started = self.started.as_secs_f64();
        // One from the future was accepted before only with a nonce.
        let may_precede = has_nonce && issued < started + FUTURE.as_secs_f64();
        issued < started || issued > now || may_precede
    }

    fn check_nonce(&self, claims: &Claims) -> Result<Option<String>, ProofRejected> {
        let now = since_1970();
        let nonce = claims.get("nonce").and_then(Value::as_str).unwrap_or_default();
        match self.nonces.is_current(nonce, now) {
            Some(true) => Ok(None),
            Some(false) => Ok(Some(self.nonces.current(now))),
            None => Err(ProofRejected::Nonce(self.nonces.current(now))),
        }
    }
}

/// Reads the header of a proof: its algorithm and its key, which is the one the token is bound to.
fn read_header(
    settings: &DpopSettings,
    proof: &str,
    thumbprint: &str,
) -> Result<(Algorithm, Jwk), ProofRejected> {
    let malformed = ProofRejected::Malformed;
    let mut parts = proof.split('.');
    let (Some(header), Some(_), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed("it is not a JWT"));
    };
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| malformed("it is not a JWT"))?;
    let header: Value =
        serde_json::from_slice(&header).map_err(|_| malformed("its header is not JSON"))?;
    let text = |name: &str| header.get(name).and_then(Value::as_str).unwrap_or_default();
    if !text("typ").eq_ignore_ascii_case("dpop+jwt") {
        return Err(ProofRejected::Type);
    }
    let named = |algorithm: &&Algorithm| format!("{algorithm:?}") == text("alg");
    let algorithm = *settings.algorithms.iter().find(named).ok_or(ProofRejected::Algorithm)?;
    if header.get("crit").is_some() {
        return Err(malformed("it has critical extensions"));
    }
    let key = header.get("jwk").filter(|key| key.is_object());
    let key = key.ok_or(malformed("it has no jwk"))?;
    if PRIVATE.iter().any(|member| key.get(member).is_some()) {
        return Err(ProofRejected::PrivateKey);
    }
    let found = thumbprint::compute(key).ok_or(malformed("its jwk is not a public key"))?;
    if found != thumbprint {
        return Err(ProofRejected::Key);
    }
    let key = serde_json::from_value(key.clone());
    Ok((algorithm, key.map_err(|_| malformed("its jwk is not a public key"))?))
}

fn verify_signature(proof: &str, algorithm: Algorithm, key: &Jwk) -> Result<Claims, ProofRejected> {
    let key = DecodingKey::from_jwk(key)
        .map_err(|_| ProofRejected::Malformed("its jwk is not a public key"))?;
    let mut validation = Validation::new(algorithm);
    // A proof has other claims than a token; they are checked below.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let decoded = decode::<Claims>(proof, &key, &validation);
    Ok(decoded.map_err(|_| ProofRejected::Signature)?.claims)
}

/// Checks method, URL, token and time. Returns the time since 1970 at which the proof was issued, in
/// seconds.
fn check_claims(
    settings: &DpopSettings,
    claims: &Claims,
    request: &ProofContext<'_>,
) -> Result<f64, ProofRejected> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("htm") != request.method {
        return Err(ProofRejected::Method);
    }
    if !is_same_url(text("htu"), request.url) {
        return Err(ProofRejected::Url(request.url.to_owned()));
    }
    let hash = URL_SAFE_NO_PAD.encode(digest(&SHA256, request.token.as_bytes()));
    if text("ath") != hash {
        return Err(ProofRejected::TokenHash);
    }
    let issued = claims.get("iat").and_then(Value::as_f64);
    let issued = issued.ok_or(ProofRejected::Malformed("it has no iat"))?;
    let age = since_1970().as_secs_f64() - issued;
    // Clocks differ, and `iat` may be in whole seconds.
    match age > -FUTURE.as_secs_f64() && age < settings.max_age.as_secs_f64() + 1.0 {
        true => Ok(issued),
        false => Err(ProofRejected::Time),
    }
}

/// Compares URLs by RFC 3986 normalization, without query and fragment.
fn is_same_url(claimed: &str, expected: &str) -> bool {
    let parse = |text: &str| {
        let url = Url::parse(text).ok()?;
        // A WebSocket is opened by an HTTP request.
        let scheme = match url.scheme() {
            "ws" => "http",
            "wss" => "https",
            scheme => scheme,
        };
        let host = url.host_str()?.to_owned();
        Some((scheme.to_owned(), host, url.port_or_known_default(), url.path().to_owned()))
    };
    let claimed = parse(claimed);
    claimed.is_some() && claimed == parse(expected)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Members of a JWK that are secret.
const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Limit on the length of a proof: one with an RSA key of 8192 bits is below.
const MAX_PROOF: usize = 8 * 1024;

/// Limit on the length of a `jti`.
const MAX_ID: usize = 256;

/// Time by which the clock of a client may be ahead.
const FUTURE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::{ProofVerifier, is_same_url};

    /// A proof of an earlier process is never accepted without a nonce of this one, whenever it is dated.
    #[test]
    fn proofs_of_an_earlier_process_need_a_nonce() {
        let verifier = ProofVerifier::new();
        let started = verifier.started.as_secs_f64();
        for (issued, has_nonce, now, expected) in [
            (-1.0, false, 0.0, true),
            (0.0, false, 0.0, false),
            (20.0, false, 20.0, false),
            // From the future: the next process could not tell that this one has accepted it.
            (20.0, false, 19.0, true),
            // It may have been accepted 30 seconds early, with a nonce of the earlier process.
            (20.0, true, 20.0, true),
            (29.0, true, 60.0, true),
            (31.0, true, 60.0, false),
        ] {
            let found = verifier.may_be_replayed(started + issued, has_nonce, started + now);
            assert_eq!(found, expected, "{issued}, {has_nonce}, {now}");
        }
    }

    /// URLs are compared normalized, and the query does not count.
    #[test]
    fn urls_are_compared_normalized() {
        let expected = "https://flow.example/tools/mcp";
        for (claimed, is_same) in [
            ("https://flow.example/tools/mcp", true),
            ("HTTPS://Flow.Example:443/tools/mcp?x=y#z", true),
            ("https://flow.example/tools/./mcp", true),
            ("wss://flow.example/tools/mcp", true),
            ("http://flow.example/tools/mcp", false),
            ("https://flow.example/tools/mcp/", false),
            ("https://flow.example/mcp", false),
            ("https://flow.example:444/tools/mcp", false),
            ("https://flow.example.evil.example/tools/mcp", false),
            ("/tools/mcp", false),
            ("", false),
        ] {
            assert_eq!(is_same_url(claimed, expected), is_same, "{claimed}");
        }
        assert!(!is_same_url("", ""));
    }
}
