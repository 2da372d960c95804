//! Tokens by assertion: of a workload, and of an enterprise's identity provider.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_oauth::{
    Account, AssertionGrant, IdentityProvider, LoginSettings, OAuthError, TokenSource, TokenStore,
};
use serde_json::{Value, json};

use crate::support::test_server::{Reply, TestServer};
use crate::support::{account, list};

const GRANT: &str = "the.grant.of-the-provider";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Returns a JWT for an audience.
fn jwt(audience: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.s1gnature", part(&json!({"alg": "ES256"})), part(&json!({"aud": audience})))
}

/// Starts a server whose authorization server accepts assertions, and nothing else.
fn server(reply: fn(&TestServer) -> Reply) -> Arc<TestServer> {
    TestServer::with_rule(move |server, request| {
        let grant = request.field("grant_type");
        match (request.path(), grant.as_deref()) {
            ("/token", Some(JWT_BEARER)) => Some(reply(server)),
            ("/token", _) => Some(Reply::json(400, &json!({"error": "unsupported_grant_type"}))),
            _ => None,
        }
    })
}

fn issue(server: &TestServer) -> Reply {
    server.state().valid_tokens = vec!["t0ken-a".to_owned()];
    Reply::json(200, &json!({"access_token": "t0ken-a", "token_type": "Bearer", "expires_in": 1}))
}

fn by(assertion: AssertionGrant) -> LoginSettings {
    let mut settings = LoginSettings::default();
    settings.identity.client_id = Some("robot".to_owned());
    settings.identity.assertion = Some(assertion);
    settings
}

async fn log_in(account: &Account) -> Result<(), OAuthError> {
    account.login(&account.token_request().await?).await.map(drop)
}

/// A workload obtains a token when the server asks for one, and another when that expires, each with
/// the assertion that its file then has.
#[tokio::test]
async fn a_workload_obtains_tokens_by_itself() {
    let server = server(issue);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let assertion =
        |number: &str| format!("{}{number}", jwt(&json!(format!("{}/as", server.base()))));
    std::fs::write(&file, assertion("1") + "\n").unwrap();
    let source = TokenSource::File(file.clone());
    let tokens = TokenStore::file(folder.path().join("logins.json"));
    let mine = account(&server.url(), &tokens, by(AssertionGrant::Workload(source)));
    assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
    // The next process knows the way from the stored login.
    std::fs::write(&file, assertion("2")).unwrap();
    let next = account(&server.url(), &tokens, LoginSettings::default());
    assert_eq!(list(&server.url(), next).await.unwrap(), 1);
    let grants = server.grants(JWT_BEARER);
    assert_eq!(grants[0].field("assertion"), Some(assertion("1")));
    assert_eq!(grants.last().unwrap().field("assertion"), Some(assertion("2")));
    assert_eq!(grants[0].field("client_id").as_deref(), Some("robot"));
    assert_eq!(grants[0].field("resource"), Some(server.url()));
}

/// MCP-090: a workload token goes to the authorization server it was made for, or to the one that the
/// user named, and to no other.
#[tokio::test]
async fn workload_tokens_are_sent_to_their_audience_only() {
    let server = server(issue);
    let issuer = format!("{}/as", server.base());
    let endpoint = format!("{}/token", server.base());
    for (token, named, is_sent) in [
        (jwt(&json!(issuer)), None, true),
        (jwt(&json!(format!("{issuer}/"))), None, true),
        (jwt(&json!(["https://other.example", endpoint])), None, true),
        (jwt(&json!("https://other.example")), None, false),
        (jwt(&json!(null)), None, false),
        ("opaque".to_owned(), None, false),
        ("opaque".to_owned(), Some(issuer.clone()), true),
        (jwt(&json!(issuer)), Some("https://other.example".to_owned()), false),
    ] {
        let before = server.grants(JWT_BEARER).len();
        let mut settings = by(AssertionGrant::Workload(TokenSource::Value(token.clone())));
        settings.identity.issuer.clone_from(&named);
        let mine = account(&server.url(), &TokenStore::memory(), settings);
        let outcome = log_in(&mine).await;
        assert_eq!(outcome.is_ok(), is_sent, "{token} {named:?} {outcome:?}");
        assert_eq!(server.grants(JWT_BEARER).len() - before, usize::from(is_sent), "{token}");
        assert!(outcome.is_ok() || !outcome.unwrap_err().to_string().contains("s1gnature"));
    }
}

/// A rejected assertion is not sent again, and no other grant is tried.
#[tokio::test]
async fn rejected_assertions_are_final() {
    for code in ["invalid_grant", "invalid_scope", "unauthorized_client"] {
        let server = TestServer::with_rule(move |_, request| {
            let what = json!({"error": code, "error_description": request.field("assertion")});
            (request.path() == "/token").then(|| Reply::json(400, &what))
        });
        let token = jwt(&json!(format!("{}/as", server.base())));
        let source = TokenSource::Value(token.clone());
        let mine =
            account(&server.url(), &TokenStore::memory(), by(AssertionGrant::Workload(source)));
        let shown = log_in(&mine).await.unwrap_err().to_string();
        assert!(shown.contains(code) && !shown.contains(&token), "{shown}");
        let requests = server.requests();
        assert_eq!(requests.iter().filter(|request| request.path() == "/token").count(), 1);
    }
}

/// The identity provider exchanges the user's ID token for a grant at the authorization server of the
/// MCP server. Neither of the two servers sees the credentials for the other.
#[tokio::test]
async fn the_identity_provider_grants_access() {
    let server = server(issue);
    let issued = Arc::new(Mutex::new("urn:ietf:params:oauth:token-type:id-jag"));
    let kind = issued.clone();
    let provider = TestServer::with_rule(move |provider, request| match request.path() {
        "/.well-known/openid-configuration" => Some(Reply::json(
            200,
            &json!({"issuer": provider.base(), "token_endpoint": format!("{}/x", provider.base())}),
        )),
        "/.well-known/oauth-authorization-server" => Some(Reply::json(404, &json!({}))),
        "/x" => Some(Reply::json(
            200,
            &json!({"access_token": GRANT, "issued_token_type": *kind.lock().unwrap(),
                "token_type": "N_A"}),
        )),
        _ => None,
    });
    let mut identity =
        IdentityProvider::new(&provider.base(), TokenSource::Value("1d-token".into()));
    identity.client_id = Some("me-there".to_owned());
    identity.client_secret = Some("s3cret-there".to_owned());
    let mut settings = by(AssertionGrant::Enterprise(Box::new(identity)));
    settings.identity.client_secret = Some("s3cret-here".to_owned());
    let mine = account(&server.url(), &TokenStore::memory(), settings.clone());
    assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
    let exchange = provider.requests().into_iter().find(|request| request.is("POST", "/x"));
    let exchange = exchange.unwrap();
    for (name, expected) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", "1d-token"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", &format!("{}/as", server.base())),
        ("resource", &server.url()),
    ] {
        assert_eq!(exchange.field(name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(server.grants(JWT_BEARER)[0].field("assertion").as_deref(), Some(GRANT));
    for (other, secrets) in
        [(&server, ["1d-token", "s3cret-there"]), (&provider, ["s3cret-here", "t0ken"])]
    {
        for request in other.requests() {
            let text = format!("{request:?}");
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
        }
    }
    // What is no grant is not sent on.
    *issued.lock().unwrap() = "urn:ietf:params:oauth:token-type:access_token";
    let before = server.grants(JWT_BEARER).len();
    let mine = account(&server.url(), &TokenStore::memory(), settings);
    let shown = log_in(&mine).await.unwrap_err().to_string();
    assert!(shown.contains("identity provider") && !shown.contains(GRANT), "{shown}");
    assert_eq!(server.grants(JWT_BEARER).len(), before);
}

/// Without an ID token the user logs in at the identity provider: once in the browser, and after that
/// by its refresh token, until the provider rejects it.
#[tokio::test]
async fn the_user_logs_in_at_the_identity_provider() {
    let server = server(issue);
    let nonces = Arc::new(Mutex::new(Vec::new()));
    let wrong = Arc::new(Mutex::new(None));
    let (seen, changed) = (nonces.clone(), wrong.clone());
    let provider = TestServer::with_rule(move |provider, request| {
        let base = provider.base();
        let grant = request.field("grant_type");
        let login = |nonce: Value| {
            let mut claims =
                json!({"iss": base, "aud": ["me-there"], "nonce": nonce, "sub": "ada"});
            if let Some((name, value)) = changed.lock().unwrap().clone() {
                claims[name] = value;
            }
            let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
            Some(Reply::json(
                200,
                &json!({"access_token": "n0t-used", "token_type": "Bearer",
                    "id_token": format!("h.{claims}.1d"), "refresh_token": "r3fresh-there"}),
            ))
        };
        match (request.path(), grant.as_deref()) {
            ("/.well-known/openid-configuration", _) => Some(Reply::json(
                200,
                &json!({"issuer": base, "token_endpoint": format!("{base}/x"),
                    "authorization_endpoint": format!("{base}/page"),
                    "scopes_supported": ["openid", "offline_access"],
                    "code_challenge_methods_supported": ["S256"]}),
            )),
            ("/.well-known/oauth-authorization-server", _) => Some(Reply::json(404, &json!({}))),
            ("/page", _) => {
                let query = |name: &str| request.field(name).unwrap_or_default();
                assert_eq!(query("scope"), "openid offline_access");
                assert_eq!((query("client_id"), query("resource")), ("me-there".into(), "".into()));
                seen.lock().unwrap().push(query("nonce"));
                let to = format!("{}?code=c0de&state={}", query("redirect_uri"), query("state"));
                Some(Reply::redirect_to(&to))
            }
            ("/x", Some("authorization_code")) => {
                login(seen.lock().unwrap().last().cloned().into())
            }
            ("/x", Some("refresh_token")) => login(Value::Null),
            ("/x", _) => Some(Reply::json(
                200,
                &json!({"access_token": GRANT, "token_type": "N_A",
                    "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}),
            )),
            _ => None,
        }
    });
    let login = TokenSource::Login { refresh_token: None };
    let mut identity = IdentityProvider::new(&provider.base(), login);
    identity.client_id = Some("me-there".to_owned());
    let mut settings = by(AssertionGrant::Enterprise(Box::new(identity)));
    let tokens = TokenStore::memory();
    // Nobody is there to log in.
    let mine = account(&server.url(), &tokens, settings.clone());
    assert!(matches!(log_in(&mine).await, Err(OAuthError::LoginRequired { .. })));
    settings.user_agent = crate::support::settings().user_agent;
    let mine = account(&server.url(), &tokens, settings.clone());
    assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
    assert_eq!(nonces.lock().unwrap().len(), 1);
    // The token has expired, and its successor needs no browser, in another process either.
    settings.user_agent = None;
    let mine = account(&server.url(), &tokens, settings.clone());
    assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
    assert_eq!(nonces.lock().unwrap().len(), 1);
    assert_eq!(
        provider.grants("refresh_token")[0].field("refresh_token").as_deref(),
        Some("r3fresh-there")
    );
    // An ID token of another issuer, for another client or of another login is not used.
    settings.user_agent = crate::support::settings().user_agent;
    for claim in ["iss", "aud", "nonce"] {
        *wrong.lock().unwrap() = Some((claim, json!("other")));
        let mine = account(&server.url(), &TokenStore::memory(), settings.clone());
        let error = log_in(&mine).await.unwrap_err().to_string();
        assert!(error.contains("ID token"), "{claim}: {error}");
    }
    for request in server.requests() {
        let text = format!("{request:?}");
        assert!(!text.contains("r3fresh-there") && !text.contains(".1d"), "{text}");
    }
}
