//! Who is let in by signed tokens, and who is not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{issuer, keys_file};
use mcp_flow_identity::{Algorithm, Gate, KeySource, Settings};
use mcp_flow_server::identity::TokenRejected;
use mcp_flow_server::permissions::Names;
use mcp_flow_server::{Principal, StaticTokens, TokenHash, Verifier};
use mcp_flow_testkit::signer::{self, Signer};
use serde_json::{Value, json};

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that are good for a minute.
fn claims() -> Value {
    json!({
        "iss": "https://login.example",
        "aud": "https://flow.example/mcp",
        "sub": "ada",
        "scope": "files:read files:write",
        "exp": now() + 60,
    })
}

async fn verify(gate: &Gate, token: &str) -> Result<Principal, TokenRejected> {
    gate.verify(token).result().await
}

/// INT-117, MCP-089: a good token stands for its subject, with its scopes, until it ends.
#[tokio::test]
async fn a_signed_token_stands_for_its_subject() {
    let folder = tempfile::tempdir().unwrap();
    for signer in [Signer::ed25519("one"), Signer::p256("one")] {
        let keys = keys_file(folder.path(), &[&signer]);
        let issuers = vec![issuer(KeySource::File(keys))];
        let gate = Gate::new(Settings { issuers, ..Settings::default() }).unwrap();
        let token = signer.sign(&claims());
        let ada = verify(&gate, &token).await.unwrap();
        assert_eq!(ada.name(), "corp:ada");
        assert!(ada.has_scope("files:write") && ada.expires().is_some());
        let again = verify(&gate, &token).await.unwrap();
        again.revoke();
        assert!(!ada.is_valid(), "both hold the same");
    }
}

/// Issue 11, attack rows: every way a token can be wrong is refused, each for what it is.
#[tokio::test]
async fn wrong_tokens_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (signer, stranger) = (Signer::ed25519("one"), Signer::ed25519("one"));
    let keys = keys_file(folder.path(), &[&signer]);
    let mut settings = issuer(KeySource::File(keys));
    settings.required_scopes = vec!["files:read".into()];
    let gate = Gate::new(Settings { issuers: vec![settings], ..Settings::default() }).unwrap();
    let with = |change: fn(&mut Value)| {
        let mut claims = claims();
        change(&mut claims);
        signer.sign(&claims)
    };
    let header = |header: Value| signer.sign_with(&header, &claims());
    let unknown = || Err::<Principal, _>(TokenRejected::Unknown);
    assert!(verify(&gate, &signer.sign(&claims())).await.is_ok());
    let (head, rest) =
        signer.sign(&claims()).split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let payload = rest.split('.').next().unwrap().to_owned();
    for (what, token, expected) in [
        ("another's signature", stranger.sign(&claims()), unknown()),
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
            stranger.sign_with(
                &json!({"alg": "EdDSA", "kid": "one", "jwk": stranger.jwk()}),
                &claims(),
            ),
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
        assert_eq!(verify(&gate, &token).await.map(drop), expected.map(drop), "{what}");
    }
}

/// Clocks may differ a little.
#[tokio::test]
async fn there_is_leeway() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::ed25519("one");
    let keys = keys_file(folder.path(), &[&signer]);
    let issuers = vec![issuer(KeySource::File(keys))];
    let gate = Gate::new(Settings { issuers, ..Settings::default() }).unwrap();
    let mut late = claims();
    late["exp"] = json!(now() - 5);
    late["nbf"] = json!(now() + 5);
    assert!(verify(&gate, &signer.sign(&late)).await.unwrap().is_valid());
}

/// INT-115: what is taken out of the settings is taken back from those who are inside; what stays
/// is not disturbed.
#[tokio::test]
async fn settings_are_exchanged_while_clients_are_inside() {
    let folder = tempfile::tempdir().unwrap();
    let signer = Signer::ed25519("one");
    let keys = keys_file(folder.path(), &[&signer]);
    let tokens = |names: &[&str]| -> StaticTokens {
        let all = names.iter().map(|name| (TokenHash::of(name), Principal::named(name)));
        all.collect()
    };
    let issuers = vec![issuer(KeySource::File(keys))];
    let settings = Settings { tokens: tokens(&["ann", "bob"]), issuers, ..Settings::default() };
    let gate = Gate::new(settings.clone()).unwrap();
    let (ann, bob) = (verify(&gate, "ann").await.unwrap(), verify(&gate, "bob").await.unwrap());
    let ada = verify(&gate, &signer.sign(&claims())).await.unwrap();
    let mut other = claims();
    other["sub"] = json!("eve");
    let eve = verify(&gate, &signer.sign(&other)).await.unwrap();

    gate.replace(Settings {
        tokens: tokens(&["ann"]),
        denied: Names::new(["*:eve"]),
        ..settings.clone()
    })
    .unwrap();
    assert!(ann.is_valid() && ada.is_valid());
    assert!(!bob.is_valid() && !eve.is_valid());
    assert_eq!(verify(&gate, "bob").await.map(drop), Err(TokenRejected::Unknown));
    assert_eq!(verify(&gate, &signer.sign(&other)).await.map(drop), Err(TokenRejected::Unknown));
    bob.invalidated().await;

    gate.replace(Settings { issuers: Vec::new(), ..settings.clone() }).unwrap();
    assert!(ann.is_valid() && !ada.is_valid());
    let mut broken = settings;
    broken.issuers[0].keys = KeySource::File(folder.path().join("nothing"));
    assert!(gate.replace(broken).is_err());
    assert!(ann.is_valid(), "with an error nothing has changed");
}

/// Keys rotate: a new one is looked for when a token names it, a gone one takes its tokens along.
#[tokio::test]
async fn keys_rotate() {
    let (first, second) = (Signer::ed25519("one"), Signer::ed25519("two"));
    let server = crate::support::KeyServer::start(&[&first]).await;
    let mut settings = issuer(server.source());
    settings.refresh = Duration::from_secs(1);
    let gate = Gate::new(Settings { issuers: vec![settings], ..Settings::default() }).unwrap();
    let ada = verify(&gate, &first.sign(&claims())).await.unwrap();
    assert_eq!(server.asked(), 1);
    // Tokens by keys nobody has do not make us ask again and again.
    for number in 0..5 {
        let stranger = Signer::ed25519(&format!("stranger {number}"));
        assert_eq!(
            verify(&gate, &stranger.sign(&claims())).await.map(drop),
            Err(TokenRejected::Unknown)
        );
    }
    assert_eq!(server.asked(), 1);
    server.serve(&[&second]);
    tokio::select! {
        () = gate.keep_keys_fresh() => {}
        () = ada.invalidated() => {}
    }
    assert!(!ada.is_valid(), "its key is gone");
    assert!(verify(&gate, &second.sign(&claims())).await.is_ok());
    assert!(verify(&gate, &first.sign(&claims())).await.is_err());
}

/// While the keys cannot be had, nobody is told that their token is wrong.
#[tokio::test]
async fn keys_that_cannot_be_had_are_told_apart() {
    let url = "http://127.0.0.1:1/keys".to_owned();
    let source = KeySource::Url(url, mcp_flow_http::client::Trust::System);
    let issuers = vec![issuer(source)];
    let gate = Gate::new(Settings { issuers, ..Settings::default() }).unwrap();
    let token = Signer::ed25519("one").sign(&claims());
    assert_eq!(verify(&gate, &token).await.map(drop), Err(TokenRejected::Unavailable));
    for bad in ["http://keys.example/x", "ftp://127.0.0.1/x", "nothing"] {
        let source = KeySource::Url(bad.to_owned(), mcp_flow_http::client::Trust::System);
        let issuers = vec![issuer(source)];
        assert!(Gate::new(Settings { issuers, ..Settings::default() }).is_err(), "{bad}");
    }
}

/// Secrets that both sides know are no keys, whatever a set of keys says.
#[test]
fn shared_secrets_are_no_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.json");
    let secret = json!({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one", "alg": "HS256"}]});
    std::fs::write(&path, secret.to_string()).unwrap();
    let mut settings = issuer(KeySource::File(path));
    settings.algorithms.push(Algorithm::HS256);
    assert!(Gate::new(Settings { issuers: vec![settings], ..Settings::default() }).is_err());
}
