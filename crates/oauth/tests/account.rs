//! Logins at a well-behaved server: tokens are obtained, refreshed and revoked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::test_server::{CLIENT_SECRET, Reply, TestServer};
use crate::support::{account, list, settings};
use mcp_flow_client::Error;
use mcp_flow_client::transport::TransportError;
use mcp_flow_oauth::{LoginSettings, Revocation, TokenStore};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::json;

/// MCP-089: the token for the server's scope is obtained once, and reused by the next process.
#[tokio::test]
async fn a_login_is_reused_by_the_next_process() {
    let server = TestServer::new();
    let folder = tempfile::tempdir().unwrap();
    let tokens = TokenStore::file(folder.path().join("logins.json"));
    let first = account(&server.url(), &tokens, settings());
    assert_eq!(list(&server.url(), first.clone()).await.unwrap(), 1);
    assert_eq!(first.grant().unwrap().unwrap().scopes, ["read"]);
    let grants = server.grants("authorization_code");
    assert_eq!(grants.len(), 1, "{grants:?}");
    assert_eq!(grants[0].field("resource"), Some(server.url()));
    assert!(grants[0].field("code_verifier").is_some());
    assert_eq!(grants[0].field("client_secret").as_deref(), Some(CLIENT_SECRET));

    let second = account(&server.url(), &tokens, LoginSettings::default());
    let before = server.requests().len();
    assert_eq!(list(&server.url(), second.clone()).await.unwrap(), 1);
    assert!(server.requests()[before..].iter().all(|request| request.path() == "/mcp"));

    assert_eq!(second.logout().await.unwrap(), Some(Revocation::Revoked));
    assert_eq!(second.logout().await.unwrap(), None);
    let error = list(&server.url(), second).await.unwrap_err();
    assert!(is_unauthorized(&error), "{error}");
}

/// MCP-090: a logout revokes the refresh token, then the access token, only at their issuer. If that
/// fails, the stored token is removed all the same, and the reason is returned.
#[tokio::test]
async fn a_logout_revokes_the_tokens() {
    let server = TestServer::new();
    let mine = account(&server.url(), &TokenStore::memory(), settings());
    list(&server.url(), mine.clone()).await.unwrap();
    assert_eq!(mine.logout().await.unwrap(), Some(Revocation::Revoked));
    assert!(server.state().valid_tokens.is_empty());
    let given = server.requests().into_iter().filter(|request| request.is("POST", "/revoke"));
    let given: Vec<_> = given.collect();
    let kinds: Vec<_> =
        given.iter().filter_map(|request| request.field("token_type_hint")).collect();
    assert_eq!(kinds, ["refresh_token", "access_token"]);
    assert!(
        given
            .iter()
            .all(|request| request.field("client_secret").as_deref() == Some(CLIENT_SECRET))
    );

    type Change = fn(&TestServer, &mut serde_json::Value);
    let changes: [(&str, Change); 4] = [
        ("no revocation endpoint", |_, metadata| metadata["revocation_endpoint"] = json!(null)),
        ("https is required", |_, metadata| {
            metadata["revocation_endpoint"] = json!("http://elsewhere.example/revoke");
        }),
        ("404", |server, metadata| {
            metadata["revocation_endpoint"] = json!(format!("{}/nothing", server.base()));
        }),
        ("", |_, metadata| metadata["issuer"] = json!("https://elsewhere.example")),
    ];
    for (why, change) in changes {
        let is_changed = Arc::new(AtomicBool::new(false));
        let rule = is_changed.clone();
        let server = TestServer::with_rule(move |server, request| {
            let is_metadata = request.path() == "/.well-known/oauth-authorization-server/as";
            (is_metadata && rule.load(Ordering::SeqCst)).then(|| {
                let mut metadata = server.metadata();
                change(server, &mut metadata);
                Reply::json(200, &metadata)
            })
        });
        let mine = account(&server.url(), &TokenStore::memory(), settings());
        list(&server.url(), mine.clone()).await.unwrap();
        is_changed.store(true, Ordering::SeqCst);
        let returned = mine.logout().await.unwrap();
        let Some(Revocation::Failed(shown)) = returned else { panic!("{returned:?}") };
        assert!(shown.contains(why) && !shown.contains("t0ken"), "{shown}");
        assert!(mine.grant().unwrap().is_none());
        assert!(server.requests().iter().all(|request| request.path() != "/revoke"));
    }
}

/// MCP-090: a token is sent only to the server it was issued for: not to another host, nor to another
/// path of the same origin.
#[tokio::test]
async fn tokens_are_sent_only_to_their_server() {
    let (server, other) = (TestServer::new(), TestServer::new());
    let tokens = TokenStore::memory();
    list(&server.url(), account(&server.url(), &tokens, settings())).await.unwrap();
    // Another server has an account of its own, without a token.
    let elsewhere = account(&other.url(), &tokens, LoginSettings::default());
    assert!(list(&other.url(), elsewhere).await.is_err());
    let path = format!("{}/other", server.base());
    assert!(account(&path, &tokens, LoginSettings::default()).grant().unwrap().is_none());
    // An account used for the wrong server sends no token.
    let wrong = account(&server.url(), &tokens, LoginSettings::default());
    assert!(list(&other.url(), wrong).await.is_err());
    assert!(!other.requests().is_empty());
    assert!(other.requests().iter().all(|request| request.authorization.is_none()));
}

/// MCP-090: an expired token is refreshed before use, a rejected one after, by a single request for
/// all concurrent calls.
#[tokio::test]
async fn expired_and_rejected_tokens_are_refreshed() {
    let server = TestServer::new();
    server.state().lifetime = 1;
    let tokens = TokenStore::memory();
    let mine = account(&server.url(), &tokens, settings());
    mine.login(&mine.token_request().await.unwrap()).await.unwrap();
    assert_eq!(server.grants("refresh_token").len(), 0);
    server.state().lifetime = 3600;
    assert_eq!(list(&server.url(), mine.clone()).await.unwrap(), 1);
    let refreshed = server.grants("refresh_token");
    assert_eq!(refreshed.len(), 1);
    assert_eq!(refreshed[0].field("client_secret").as_deref(), Some(CLIENT_SECRET));
    assert_eq!(refreshed[0].field("resource"), Some(server.url()));

    // The server rejects the current token.
    server.state().valid_tokens.clear();
    let url = server.url();
    let (one, two, three) =
        tokio::join!(list(&url, mine.clone()), list(&url, mine.clone()), list(&url, mine.clone()));
    assert_eq!([one.unwrap(), two.unwrap(), three.unwrap()], [1, 1, 1]);
    assert_eq!(server.grants("refresh_token").len(), 2);
    assert_eq!(server.grants("authorization_code").len(), 1);
}

/// MCP-090: if the refresh token is invalid too, the user agent is used; without one, the error says
/// that a login is required.
#[tokio::test]
async fn an_invalid_refresh_token_requires_a_login() {
    let server = TestServer::with_rule(|_, request| {
        let is_refresh = request.field("grant_type").as_deref() == Some("refresh_token");
        let refused = json!({"error": "invalid_grant", "error_description": "over"});
        (request.is("POST", "/token") && is_refresh).then(|| Reply::json(400, &refused))
    });
    let tokens = TokenStore::memory();
    let mine = account(&server.url(), &tokens, settings());
    server.state().lifetime = 1;
    mine.login(&mine.token_request().await.unwrap()).await.unwrap();
    server.state().lifetime = 3600;
    list(&server.url(), mine.clone()).await.unwrap();
    assert_eq!(server.grants("authorization_code").len(), 2);
    server.state().valid_tokens.clear();
    list(&server.url(), mine).await.unwrap();
    assert_eq!(server.grants("authorization_code").len(), 3);

    server.state().valid_tokens.clear();
    let alone = account(&server.url(), &tokens, LoginSettings::default());
    let error = list(&server.url(), alone).await.unwrap_err();
    assert!(is_unauthorized(&error) && error.to_string().contains("requires a login"), "{error}");
}

/// MCP-089: a token with insufficient scope is replaced by one with more scopes, once.
#[tokio::test]
async fn insufficient_scopes_are_extended_once() {
    static WIDENED: AtomicBool = AtomicBool::new(false);
    let server = TestServer::with_rule(|_, request| {
        let is_call = request.is("POST", "/mcp") && request.body.contains("tools/list");
        if request.field("scope").as_deref() == Some("read write") {
            WIDENED.store(true, Ordering::SeqCst);
        }
        (is_call && !WIDENED.load(Ordering::SeqCst) && request.authorization.is_some()).then(|| {
            let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
            Reply::json(403, &json!({})).with("WWW-Authenticate", challenge)
        })
    });
    let tokens = TokenStore::memory();
    let alone = account(&server.url(), &tokens, LoginSettings::default());
    let mine = account(&server.url(), &tokens, settings());
    mine.login(&mine.token_request().await.unwrap()).await.unwrap();
    let error = list(&server.url(), alone).await.unwrap_err();
    assert!(error.to_string().contains(r#"--scope "read write""#), "{error}");
    assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
    assert_eq!(server.grants("authorization_code").len(), 2);
}

/// A server that rejects every token does not cause endless logins.
#[tokio::test]
async fn a_server_that_rejects_every_token_is_given_up() {
    for status in [401, 403] {
        let server = TestServer::with_rule(move |_, request| {
            request.is("POST", "/mcp").then(|| {
                let error = if status == 403 { "insufficient_scope" } else { "invalid_token" };
                let challenge = format!("Bearer error=\"{error}\", scope=\"read\"");
                let status = if request.authorization.is_none() { 401 } else { status };
                Reply::json(status, &json!({})).with("WWW-Authenticate", &challenge)
            })
        });
        let mine = account(&server.url(), &TokenStore::memory(), settings());
        let error = list(&server.url(), mine).await.unwrap_err();
        assert!(is_unauthorized(&error), "{error}");
        assert_eq!(server.grants("authorization_code").len(), 1, "{status}");
    }
}

/// MCP-089: client credentials work by secret and by key, and are renewed without a user.
#[tokio::test]
async fn client_credentials_need_no_user() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
    for (secret, key) in [(Some("s3cret".to_owned()), None), (None, Some(key))] {
        let server = TestServer::new();
        let tokens = TokenStore::memory();
        let mut settings = LoginSettings::default();
        settings.identity.client_id = Some("robot".to_owned());
        settings.identity.client_secret = secret.clone();
        settings.identity.client_key = key;
        settings.identity.uses_client_credentials = true;
        let robot = account(&server.url(), &tokens, settings);
        assert_eq!(list(&server.url(), robot).await.unwrap(), 1);
        // Another process has only the stored token.
        server.state().valid_tokens.clear();
        let again = account(&server.url(), &tokens, LoginSettings::default());
        assert_eq!(list(&server.url(), again).await.unwrap(), 1);
        let grants = server.grants("client_credentials");
        assert_eq!(grants.len(), 2);
        for grant in grants {
            assert_eq!(grant.field("resource"), Some(server.url()));
            assert_eq!(grant.field("client_secret"), secret);
            assert_eq!(grant.field("client_assertion").is_some(), secret.is_none());
        }
    }
}

/// MCP-089: a pre-registered client, or one with a metadata document, is not registered dynamically.
#[tokio::test]
async fn known_clients_are_not_registered() {
    const DOCUMENT: &str = "https://client.example/about.json";
    let server = TestServer::with_rule(|server, request| {
        let mut metadata = server.metadata();
        metadata["client_id_metadata_document_supported"] = true.into();
        let is_metadata = request.is("GET", "/.well-known/oauth-authorization-server/as");
        is_metadata.then(|| Reply::json(200, &metadata))
    });
    for (id, document, expected) in [
        (Some("mine"), None, "mine"),
        (Some("mine"), Some(DOCUMENT), "mine"),
        (None, Some(DOCUMENT), DOCUMENT),
    ] {
        let mut settings = settings();
        settings.identity.client_id = id.map(str::to_owned);
        settings.identity.metadata_url = document.map(str::to_owned);
        list(&server.url(), account(&server.url(), &TokenStore::memory(), settings)).await.unwrap();
        let grants = server.grants("authorization_code");
        assert_eq!(grants.last().unwrap().field("client_id").as_deref(), Some(expected));
    }
    assert!(server.requests().iter().all(|request| request.path() != "/register"));
}

/// MCP-090: a new authorization server of a server is used, but receives no secret of the old one.
#[tokio::test]
async fn secrets_are_not_sent_to_another_authorization_server() {
    static MOVED: AtomicBool = AtomicBool::new(false);
    let new = TestServer::new();
    let issuer = format!("{}/as", new.base());
    let server = TestServer::with_rule(move |server, request| {
        let is_resource = request.path().starts_with("/.well-known/oauth-protected-resource");
        let moved = json!({"resource": server.url(), "authorization_servers": [issuer]});
        (is_resource && MOVED.load(Ordering::SeqCst)).then(|| Reply::json(200, &moved))
    });
    let tokens = TokenStore::memory();
    let mine = account(&server.url(), &tokens, settings());
    list(&server.url(), mine.clone()).await.unwrap();
    MOVED.store(true, Ordering::SeqCst);
    server.state().valid_tokens.clear();
    // The new authorization server happens to issue the same tokens.
    let _ = list(&server.url(), mine).await;
    assert!(new.grants("refresh_token").is_empty() && server.grants("refresh_token").is_empty());
    assert!(new.requests().iter().any(|request| request.path() == "/register"));
    let received = format!("{:?}", new.requests());
    assert!(!received.contains("r3fresh") && !received.contains("t0ken"), "{received}");
}

fn is_unauthorized(error: &Error) -> bool {
    matches!(error, Error::Connect { source: TransportError::Unauthorized { .. }, .. })
}
