//! Proofs of possession (DPoP): what is accepted, and every attack on it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{issuer, keys_file};
use mcp_flow_identity::{DpopSettings, KeySource, TokenVerifier, VerifierSettings};
use mcp_flow_server::Verifier as _;
use mcp_flow_server::access::{AccessDenied, AccessPolicy, Credentials};
use mcp_flow_server::identity::{ProofRejected, TokenRejected};
use mcp_flow_testkit::signer::{self, Signer};
use serde_json::{Value, json};

const URL: &str = "https://flow.example/tools/mcp";

fn now() -> u64 {
    moment().as_secs()
}

/// The current time since 1970.
fn moment() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Issuer, client key, and the policy of a server.
struct Setting {
    issuer: Signer,
    client: Signer,
    policy: AccessPolicy,
    verifier: Arc<TokenVerifier>,
    _folder: tempfile::TempDir,
}

impl Setting {
    fn new(dpop: DpopSettings) -> Self {
        Self::of(dpop, Signer::ed25519("one"), Signer::p256("client"))
    }

    fn of(dpop: DpopSettings, signer: Signer, client: Signer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let issuers = vec![issuer(KeySource::File(keys_file(folder.path(), &[&signer])))];
        let settings = VerifierSettings { issuers, dpop, ..VerifierSettings::default() };
        let verifier = Arc::new(TokenVerifier::new(settings).unwrap());
        let policy = AccessPolicy::new(true, vec![], vec![], Some(verifier.clone()));
        Self { issuer: signer, client, policy, verifier, _folder: folder }
    }

    /// Issues a token with these claims of confirmation.
    fn token(&self, cnf: &Value) -> String {
        let mut claims = json!({
            "iss": "https://login.example", "aud": "https://flow.example/mcp", "sub": "ada",
            "exp": now() + 60,
        });
        if !cnf.is_null() {
            claims["cnf"] = cnf.clone();
        }
        self.issuer.sign(&claims)
    }

    /// Issues a token bound to the client's key.
    fn bound_token(&self) -> String {
        self.token(&json!({"jkt": self.client.thumbprint()}))
    }

    /// Signs a proof of the client after a change to its header and claims.
    fn proof(&self, token: &str, change: impl FnOnce(&mut Value, &mut Value)) -> String {
        let (mut header, mut claims) = self.client.proof("POST", URL, token, moment());
        change(&mut header, &mut claims);
        self.client.sign_with(&header, &claims)
    }

    /// Sends a request. Returns the next nonce, or the rejection of the proof.
    async fn send(
        &self,
        authorization: &str,
        proof: &str,
    ) -> Result<Option<String>, ProofRejected> {
        let credentials = Credentials {
            authorization: Some(authorization),
            proof: Some(proof),
            method: "POST",
            url: &|| Some(URL.to_owned()),
        };
        match self.policy.authenticate(&credentials).await {
            Ok(caller) => {
                assert_eq!(caller.principal.name(), "corp:ada");
                Ok(caller.next_nonce)
            }
            Err(AccessDenied::InvalidProof(_, rejected)) => Err(rejected),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Bound tokens are accepted with a proof of their key, in each request a new one.
#[tokio::test]
async fn bound_tokens_are_accepted_with_their_proof() {
    let setting = Setting::new(DpopSettings::default());
    let token = setting.bound_token();
    for _ in 0..3 {
        let proof = setting.proof(&token, |_, _| ());
        assert_eq!(setting.send(&format!("DPoP {token}"), &proof).await, Ok(None));
    }
    let proof = setting.proof(&token, |_, claims| {
        claims["htu"] = json!("HTTPS://FLOW.example:443/tools/mcp?a=b");
    });
    assert_eq!(setting.send(&format!("dpop {token}"), &proof).await, Ok(None));
    let plain = setting.token(&json!(null));
    assert_eq!(setting.send(&format!("Bearer {plain}"), "").await, Ok(None));
}

/// A proof that an earlier process may have accepted, or a later one could accept again, needs a nonce
/// of this one, and is then as good as any other.
#[tokio::test]
async fn proofs_do_not_survive_a_restart() {
    let before = Setting::new(DpopSettings::default());
    let token = before.bound_token();
    let authorization = format!("DPoP {token}");
    let captured = before.proof(&token, |_, _| ());
    assert_eq!(before.send(&authorization, &captured).await, Ok(None));
    let ahead = before.proof(&token, |_, claims| claims["iat"] = json!(now() + 20));
    let rejected = before.send(&authorization, &ahead).await;
    let Err(ProofRejected::Nonce(nonce)) = rejected else { panic!("{rejected:?}") };
    let ahead = before.proof(&token, |_, claims| {
        claims["iat"] = json!(now() + 20);
        claims["nonce"] = json!(nonce);
    });
    assert_eq!(before.send(&authorization, &ahead).await, Ok(None));
    // The process is killed, and another takes its place.
    let (issuer, client) = (before.issuer, before.client);
    let after = Setting::of(DpopSettings::default(), issuer, client);
    let rejected = after.send(&authorization, &captured).await;
    let Err(ProofRejected::Nonce(nonce)) = rejected else { panic!("{rejected:?}") };
    let rejected = after.send(&authorization, &ahead).await;
    assert!(matches!(rejected, Err(ProofRejected::Nonce(_))), "{rejected:?}");
    let slow = after.proof(&token, |_, claims| {
        claims["iat"] = json!(now() - 100);
        claims["nonce"] = json!(nonce);
    });
    assert_eq!(after.send(&authorization, &slow).await, Ok(None));
    assert_eq!(after.send(&authorization, &slow).await, Err(ProofRejected::Replayed));
}

/// A server that waits before it listens accepts every fresh proof, also one dated in whole seconds.
#[tokio::test]
async fn proofs_dated_in_whole_seconds_are_fresh() {
    let setting = Setting::new(DpopSettings::default());
    setting.verifier.wait_for_fresh_proofs().await;
    let token = setting.bound_token();
    let proof = setting.proof(&token, |_, claims| claims["iat"] = json!(now()));
    assert_eq!(setting.send(&format!("DPoP {token}"), &proof).await, Ok(None));
}

/// Every attack on a proof is rejected, with its name.
#[tokio::test]
async fn forged_and_replayed_proofs_are_rejected() {
    type Change = fn(&mut Value, &mut Value);
    let setting = Setting::new(DpopSettings::default());
    let token = setting.bound_token();
    let malformed = ProofRejected::Malformed;
    let changes: [(&str, Change, ProofRejected); 30] = [
        ("another method", |_, claims| claims["htm"] = json!("GET"), ProofRejected::Method),
        (
            "a method in lower case",
            |_, claims| claims["htm"] = json!("post"),
            ProofRejected::Method,
        ),
        ("no method", |_, claims| claims["htm"] = json!(null), ProofRejected::Method),
        (
            "another path",
            |_, claims| claims["htu"] = json!("https://flow.example/mcp"),
            ProofRejected::Url(URL.into()),
        ),
        (
            "another host",
            |_, claims| claims["htu"] = json!("https://evil.example/tools/mcp"),
            ProofRejected::Url(URL.into()),
        ),
        (
            "another scheme",
            |_, claims| claims["htu"] = json!("http://flow.example/tools/mcp"),
            ProofRejected::Url(URL.into()),
        ),
        ("no URL", |_, claims| claims["htu"] = json!(7), ProofRejected::Url(URL.into())),
        ("the future", |_, claims| claims["iat"] = json!(now() + 300), ProofRejected::Time),
        ("the past", |_, claims| claims["iat"] = json!(now() - 300), ProofRejected::Time),
        ("the beginning", |_, claims| claims["iat"] = json!(-1), ProofRejected::Time),
        ("the end of time", |_, claims| claims["iat"] = json!(1e300), ProofRejected::Time),
        (
            "no time",
            |_, claims| claims["iat"] = json!("now"),
            ProofRejected::Malformed("it has no iat"),
        ),
        ("another token", |_, claims| claims["ath"] = json!("x"), ProofRejected::TokenHash),
        ("no token", |_, claims| claims["ath"] = json!(null), ProofRejected::TokenHash),
        (
            "no id",
            |_, claims| claims["jti"] = json!(null),
            ProofRejected::Malformed("it has no usable jti"),
        ),
        (
            "an empty id",
            |_, claims| claims["jti"] = json!(""),
            ProofRejected::Malformed("it has no usable jti"),
        ),
        (
            "a long id",
            |_, claims| claims["jti"] = json!("x".repeat(257)),
            ProofRejected::Malformed("it has no usable jti"),
        ),
        ("a token's type", |header, _| header["typ"] = json!("at+jwt"), ProofRejected::Type),
        ("no type", |header, _| header["typ"] = json!(null), ProofRejected::Type),
        ("alg none", |header, _| header["alg"] = json!("none"), ProofRejected::Algorithm),
        ("HS256", |header, _| header["alg"] = json!("HS256"), ProofRejected::Algorithm),
        ("another algorithm", |header, _| header["alg"] = json!("ES384"), ProofRejected::Signature),
        ("another family", |header, _| header["alg"] = json!("RS256"), ProofRejected::Signature),
        (
            "its private key",
            |header, _| header["jwk"]["d"] = json!("c2VjcmV0"),
            ProofRejected::PrivateKey,
        ),
        (
            "a symmetric key",
            |header, _| header["jwk"] = json!({"kty": "oct", "k": "c2VjcmV0"}),
            ProofRejected::PrivateKey,
        ),
        (
            "another's key",
            |header, _| header["jwk"] = Signer::p256("other").jwk(),
            ProofRejected::Key,
        ),
        ("no key", |header, _| header["jwk"] = json!(null), malformed("it has no jwk")),
        (
            "a key of no type",
            |header, _| header["jwk"] = json!({"kty": "X"}),
            malformed("its jwk is not a public key"),
        ),
        (
            "critical extensions",
            |header, _| header["crit"] = json!(["x"]),
            malformed("it has critical extensions"),
        ),
        ("too much", |_, claims| claims["x"] = json!("x".repeat(9000)), ProofRejected::TooLong),
    ];
    let authorization = format!("DPoP {token}");
    for (what, change, expected) in changes {
        let proof = setting.proof(&token, change);
        assert_eq!(setting.send(&authorization, &proof).await, Err(expected), "{what}");
    }
    let good = setting.proof(&token, |_, _| ());
    let (header, claims) = setting.client.proof("POST", URL, &token, moment());
    let mut symmetric = header.clone();
    symmetric["alg"] = json!("none");
    let (start, signature) = good.rsplit_once('.').unwrap();
    let other = Signer::p256("other");
    for (what, proof, expected) in [
        ("unsigned", format!("{start}."), ProofRejected::Signature),
        ("another's signature", other.sign_with(&header, &claims), ProofRejected::Signature),
        ("alg none", signer::unsigned(&symmetric, &claims), ProofRejected::Algorithm),
        ("two parts", start.to_owned(), malformed("it is not a JWT")),
        ("four parts", format!("{good}.{signature}"), malformed("it is not a JWT")),
        ("nonsense", "a.b.c".to_owned(), malformed("it is not a JWT")),
        ("no JSON", "YQ.YQ.YQ".to_owned(), malformed("its header is not JSON")),
        ("two proofs", format!("{good}, {good}"), malformed("it is not a JWT")),
        ("none", String::new(), ProofRejected::Missing),
    ] {
        assert_eq!(setting.send(&authorization, &proof).await, Err(expected), "{what}");
    }
    // None of these has used up the proof; its first use does.
    assert_eq!(setting.send(&authorization, &good).await, Ok(None));
    assert_eq!(setting.send(&authorization, &good).await, Err(ProofRejected::Replayed));
}

/// A bound token is not accepted in another way, nor a token that is bound in an unknown way.
#[tokio::test]
async fn bound_tokens_cannot_be_downgraded() {
    let setting = Setting::new(DpopSettings::default());
    let (bound, plain) = (setting.bound_token(), setting.token(&json!(null)));
    let proof = |token: &str| setting.proof(token, |_, _| ());
    for (authorization, proof, expected) in [
        (format!("Bearer {bound}"), proof(&bound), ProofRejected::Downgraded),
        (format!("Bearer {bound}"), String::new(), ProofRejected::Downgraded),
        (format!("DPoP {plain}"), proof(&plain), ProofRejected::Unbound),
    ] {
        assert_eq!(setting.send(&authorization, &proof).await, Err(expected), "{authorization}");
    }
    for cnf in [json!({"x5t#S256": "x"}), json!({"jkt": "short"}), json!({"jkt": 7}), json!("x")] {
        let token = setting.token(&cnf);
        let credentials = Credentials {
            authorization: Some(&format!("Bearer {token}")),
            proof: None,
            method: "POST",
            url: &|| Some(URL.to_owned()),
        };
        let denied = setting.policy.authenticate(&credentials).await.unwrap_err();
        assert!(matches!(denied, AccessDenied::Unauthorized(_, true)), "{cnf}: {denied:?}");
    }
}

/// Required nonces are issued: a proof without a current one is told which to use.
#[tokio::test]
async fn required_nonces_are_issued_and_checked() {
    let dpop = DpopSettings { requires_nonce: true, ..DpopSettings::default() };
    let setting = Setting::new(dpop);
    let token = setting.bound_token();
    let authorization = format!("DPoP {token}");
    let rejected = setting.send(&authorization, &setting.proof(&token, |_, _| ())).await;
    let Err(ProofRejected::Nonce(nonce)) = rejected else { panic!("{rejected:?}") };
    let forged = setting.proof(&token, |_, claims| claims["nonce"] = json!("AAAA"));
    let rejected = setting.send(&authorization, &forged).await;
    assert!(matches!(rejected, Err(ProofRejected::Nonce(_))), "{rejected:?}");
    let proof = setting.proof(&token, |_, claims| claims["nonce"] = json!(nonce));
    assert!(setting.send(&authorization, &proof).await.is_ok());
    assert_eq!(setting.send(&authorization, &proof).await, Err(ProofRejected::Replayed));
    assert!(setting.policy.proof_nonce().is_some());
}

/// Required binding rejects other tokens, and revokes those in use.
#[tokio::test]
async fn binding_can_be_required() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::ed25519("one");
    let issuers = vec![issuer(KeySource::File(keys_file(folder.path(), &[&signer])))];
    let optional = VerifierSettings { issuers, ..VerifierSettings::default() };
    let verifier = TokenVerifier::new(optional.clone()).unwrap();
    let claims = json!({
        "iss": "https://login.example", "aud": "https://flow.example/mcp", "sub": "ada",
        "exp": now() + 60,
    });
    let plain = signer.sign(&claims);
    let ada = verifier.verify(&plain).result().await.unwrap();
    let dpop = DpopSettings { is_required: true, ..DpopSettings::default() };
    verifier.replace(VerifierSettings { dpop, ..optional }).unwrap();
    assert!(!ada.is_valid());
    let again = verifier.verify(&plain).result().await;
    assert_eq!(again.map(drop), Err(TokenRejected::NotBound));
    let proofs = verifier.requirements().proofs.clone().unwrap();
    assert!(proofs.is_required && proofs.algorithms.contains(&"ES256".to_owned()));
}
