//! Verification of JWTs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{issuer, keys_file};
use mcp_flow_identity::{
    Algorithm, KeySource, StaticTokens, TokenHash, TokenVerifier, VerifierSettings,
};
use mcp_flow_server::identity::TokenRejected;
use mcp_flow_server::permissions::Names;
use mcp_flow_server::{Principal, Verifier};
use mcp_flow_testkit::signer::{self, Signer};
use serde_json::{Value, json};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns claims that are valid for a minute.
fn claims() -> Value {
    json!({
        "iss": "https://login.example",
        "aud": "https://flow.example/mcp",
        "sub": "ada",
        "scope": "files:read files:write",
        "exp": now() + 60,
    })
}

async fn verify(verifier: &TokenVerifier, token: &str) -> Result<Principal, TokenRejected> {
    verifier.verify(token).result().await
}

/// INT-117, MCP-089: a valid token identifies its subject, with its scopes, until it expires.
#[tokio::test]
async fn valid_tokens_identify_their_subject() {
    let folder = tempfile::tempdir().unwrap();
    for signer in [Signer::ed25519("one"), Signer::p256("one")] {
        let keys = keys_file(folder.path(), &[&signer]);
        let issuers = vec![issuer(KeySource::File(keys))];
        let verifier =
            TokenVerifier::new(VerifierSettings { issuers, ..VerifierSettings::default() })
                .unwrap();
        let token = signer.sign(&claims());
        let ada = verify(&verifier, &token).await.unwrap();
        assert_eq!(ada.name(), "corp:ada");
        assert!(ada.has_scope("files:write") && ada.expires().is_some());
        let again = verify(&verifier, &token).await.unwrap();
        again.revoke();
        assert!(!ada.is_valid(), "both hold the same");
    }
}

/// INT-117: forged, expired and misdirected tokens are rejected, each with its reason.
#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let (signer, forger) = (Signer::ed25519("one"), Signer::ed25519("one"));
    let keys = keys_file(folder.path(), &[&signer]);
    let mut settings = issuer(KeySource::File(keys));
    settings.required_scopes = vec!["files:read".into()];
    let verifier = TokenVerifier::new(VerifierSettings {
        issuers: vec![settings],
        ..VerifierSettings::default()
    })
    .unwrap();
    let with = |change: fn(&mut Value)| {
        let mut claims = claims();
        change(&mut claims);
        signer.sign(&claims)
    };
    let header = |header: Value| signer.sign_with(&header, &claims());
    let unknown = || Err::<Principal, _>(TokenRejected::Unknown);
    assert!(verify(&verifier, &signer.sign(&claims())).await.is_ok());
    let (head, rest) =
        signer.sign(&claims()).split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let payload = rest.split('.').next().unwrap().to_owned();
    for (what, token, expected) in [
        ("another's signature", forger.sign(&claims()), unknown()),
        ("no signature", format!("{head}.{payload}."), unknown()),
        ("two parts", format!("{head}.{payload}"), unknown()),
        ("nonsense", "not.a.token".to_owned(), unknown()),
        ("empty", "..".to_owned(), unknown()),
        ("alg none", signer::unsigned(&json!({"alg": "none"}), &claims()), unknown()),
        ("alg None", signer::unsigned(&json!({"alg": "None", "kid": "one"}), &claims()), unknown()),
        // Key confusion: the public key used as the secret of an HMAC.
        ("hmac by the public key", signer.sign_as_hmac(&claims()), unknown()),
        ("the wrong family", header(json!({"alg": "ES256", "kid": "one"})), unknown()),
        ("not allowed", header(json!({"alg": "RS512", "kid": "one"})), unknown()),
        (
            "critical",
            header(json!({"alg": "EdDSA", "kid": "one", "crit": ["x"], "x": 1})),
            unknown(),
        ),
        (
            "a logout token",
            header(json!({"alg": "EdDSA", "kid": "one", "typ": "logout+jwt"})),
            unknown(),
        ),
        (
            "its own key",
            forger
                .sign_with(&json!({"alg": "EdDSA", "kid": "one", "jwk": forger.jwk()}), &claims()),
            unknown(),
        ),
        ("expired", with(|claims| claims["exp"] = json!(now() - 120)), Err(TokenRejected::Expired)),
        ("not yet", with(|claims| claims["nbf"] = json!(now() + 120)), Err(TokenRejected::Expired)),
        ("no end", with(|claims| _ = claims.as_object_mut().unwrap().remove("exp")), unknown()),
        ("an end that is no number", with(|claims| claims["exp"] = json!("never")), unknown()),
        ("a begin that is no number", with(|claims| claims["nbf"] = json!("x")), unknown()),
        ("another issuer", with(|claims| claims["iss"] = json!("https://evil.example")), unknown()),
        ("issuers", with(|claims| claims["iss"] = json!(["https://login.example"])), unknown()),
        (
            "another audience",
            with(|claims| claims["aud"] = json!("https://other")),
            Err(TokenRejected::Audience),
        ),
        (
            "no audience",
            with(|claims| _ = claims.as_object_mut().unwrap().remove("aud")),
            unknown(),
        ),
        ("no subject", with(|claims| claims["sub"] = json!("")), unknown()),
        ("a subject with a line break", with(|claims| claims["sub"] = json!("a\nb")), unknown()),
        (
            "too few scopes",
            with(|claims| claims["scope"] = json!("files:write")),
            Err(TokenRejected::Scope(vec!["files:read".into()])),
        ),
    ] {
        assert_eq!(verify(&verifier, &token).await.map(drop), expected.map(drop), "{what}");
    }
}

/// Expiry allows for clock skew.
#[tokio::test]
async fn clock_skew_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::ed25519("one");
    let keys = keys_file(folder.path(), &[&signer]);
    let issuers = vec![issuer(KeySource::File(keys))];
    let verifier =
        TokenVerifier::new(VerifierSettings { issuers, ..VerifierSettings::default() }).unwrap();
    let mut late = claims();
    late["exp"] = json!(now() - 5);
    late["nbf"] = json!(now() + 5);
    assert!(verify(&verifier, &signer.sign(&late)).await.unwrap().is_valid());
}

/// INT-115: tokens removed from the settings are revoked while in use; the others stay valid.
#[tokio::test]
async fn replaced_settings_revoke_removed_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::ed25519("one");
    let keys = keys_file(folder.path(), &[&signer]);
    let tokens = |names: &[&str]| -> StaticTokens {
        let all = names.iter().map(|name| (TokenHash::of(name), Principal::named(name)));
        all.collect()
    };
    let issuers = vec![issuer(KeySource::File(keys))];
    let settings = VerifierSettings {
        tokens: tokens(&["ann", "bob"]),
        issuers,
        ..VerifierSettings::default()
    };
    let verifier = TokenVerifier::new(settings.clone()).unwrap();
    let (ann, bob) =
        (verify(&verifier, "ann").await.unwrap(), verify(&verifier, "bob").await.unwrap());
    let ada = verify(&verifier, &signer.sign(&claims())).await.unwrap();
    let mut other = claims();
    other["sub"] = json!("eve");
    let eve = verify(&verifier, &signer.sign(&other)).await.unwrap();

    verifier
        .replace(VerifierSettings {
            tokens: tokens(&["ann"]),
            denied: Names::new(["*:eve"]),
            ..settings.clone()
        })
        .unwrap();
    assert!(ann.is_valid() && ada.is_valid());
    assert!(!bob.is_valid() && !eve.is_valid());
    assert_eq!(verify(&verifier, "bob").await.map(drop), Err(TokenRejected::Unknown));
    assert_eq!(
        verify(&verifier, &signer.sign(&other)).await.map(drop),
        Err(TokenRejected::Unknown)
    );
    bob.invalidated().await;

    verifier.replace(VerifierSettings { issuers: Vec::new(), ..settings.clone() }).unwrap();
    assert!(ann.is_valid() && !ada.is_valid());
    let mut broken = settings;
    broken.issuers[0].keys = KeySource::File(folder.path().join("nothing"));
    assert!(verifier.replace(broken).is_err());
    assert!(ann.is_valid(), "with an error nothing has changed");
}

/// Keys rotate: a new key is fetched when a token names it, a removed key revokes its tokens.
#[tokio::test]
async fn keys_rotate() {
    let (first, second) = (Signer::ed25519("one"), Signer::ed25519("two"));
    let server = crate::support::KeyServer::start(&[&first]).await;
    let mut settings = issuer(server.source());
    settings.refresh = Duration::from_secs(1);
    let verifier = TokenVerifier::new(VerifierSettings {
        issuers: vec![settings],
        ..VerifierSettings::default()
    })
    .unwrap();
    let ada = verify(&verifier, &first.sign(&claims())).await.unwrap();
    assert_eq!(server.requests(), 1);
    // Tokens with unknown keys do not cause a fetch each.
    for number in 0..5 {
        let forger = Signer::ed25519(&format!("unknown {number}"));
        assert_eq!(
            verify(&verifier, &forger.sign(&claims())).await.map(drop),
            Err(TokenRejected::Unknown)
        );
    }
    assert_eq!(server.requests(), 1);
    server.serve(&[&second]);
    tokio::select! {
        () = verifier.refresh_keys() => {}
        () = ada.invalidated() => {}
    }
    assert!(!ada.is_valid(), "its key was removed");
    assert!(verify(&verifier, &second.sign(&claims())).await.is_ok());
    assert!(verify(&verifier, &first.sign(&claims())).await.is_err());
}

/// While the keys are unavailable, tokens are not reported as invalid.
#[tokio::test]
async fn unavailable_keys_do_not_invalidate_tokens() {
    let url = "http://127.0.0.1:1/keys".to_owned();
    let source = KeySource::Url(url, mcp_flow_http_client::Trust::System);
    let issuers = vec![issuer(source)];
    let verifier =
        TokenVerifier::new(VerifierSettings { issuers, ..VerifierSettings::default() }).unwrap();
    let token = Signer::ed25519("one").sign(&claims());
    assert_eq!(verify(&verifier, &token).await.map(drop), Err(TokenRejected::Unavailable));
    for bad in ["http://keys.example/x", "ftp://127.0.0.1/x", "nothing"] {
        let source = KeySource::Url(bad.to_owned(), mcp_flow_http_client::Trust::System);
        let issuers = vec![issuer(source)];
        assert!(
            TokenVerifier::new(VerifierSettings { issuers, ..VerifierSettings::default() })
                .is_err(),
            "{bad}"
        );
    }
}

/// Symmetric keys of a key set are never used.
#[test]
fn symmetric_keys_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let secret = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}]});
    std::fs::write(&path, secret.to_string()).unwrap();
    let mut settings = issuer(KeySource::File(path));
    settings.algorithms.push(Algorithm::HS256);
    assert!(
        TokenVerifier::new(VerifierSettings {
            issuers: vec![settings],
            ..VerifierSettings::default()
        })
        .is_err()
    );
}
