//! Logging in to an honest town, and staying logged in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::town::{Answer, CLIENT_SECRET, Town};
use crate::support::{account, list, settings};
use mcp_flow_client::Error;
use mcp_flow_client::transport::TransportError;
use mcp_flow_oauth::{Returned, Settings, Tokens};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::json;

/// MCP-089: what the server asks for is found out, asked for and shown, and kept for the next
/// process, which does not have to ask anybody.
#[tokio::test]
async fn a_login_is_made_once() {
    let town = Town::honest();
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::file(folder.path().join("logins.json"));
    let first = account(&town.server(), &tokens, settings());
    assert_eq!(list(&town.server(), first.clone()).await.unwrap(), 1);
    assert_eq!(first.granted().unwrap().unwrap().scopes, ["read"]);
    let grants = town.grants("authorization_code");
    assert_eq!(grants.len(), 1, "{grants:?}");
    assert_eq!(grants[0].field("resource"), Some(town.server()));
    assert!(grants[0].field("code_verifier").is_some());
    assert_eq!(grants[0].field("client_secret").as_deref(), Some(CLIENT_SECRET));

    let second = account(&town.server(), &tokens, Settings::default());
    let before = town.asked().len();
    assert_eq!(list(&town.server(), second.clone()).await.unwrap(), 1);
    assert!(town.asked()[before..].iter().all(|asked| asked.path() == "/mcp"));

    assert_eq!(second.logout().await.unwrap(), Some(Returned::Revoked));
    assert_eq!(second.logout().await.unwrap(), None);
    let error = list(&town.server(), second).await.unwrap_err();
    assert!(is_unauthorized(&error), "{error}");
}

/// MCP-090: what is not wanted any more is given back, what renews it first, and only to whoever
/// made it; where that does not work the token is gone here all the same, and the reason is told.
#[tokio::test]
async fn a_token_is_given_back() {
    let town = Town::honest();
    let mine = account(&town.server(), &Tokens::memory(), settings());
    list(&town.server(), mine.clone()).await.unwrap();
    assert_eq!(mine.logout().await.unwrap(), Some(Returned::Revoked));
    assert!(town.books().good.is_empty());
    let given = town.asked().into_iter().filter(|asked| asked.is("POST", "/revoke"));
    let given: Vec<_> = given.collect();
    let kinds: Vec<_> = given.iter().filter_map(|asked| asked.field("token_type_hint")).collect();
    assert_eq!(kinds, ["refresh_token", "access_token"]);
    assert!(
        given.iter().all(|asked| asked.field("client_secret").as_deref() == Some(CLIENT_SECRET))
    );

    type Change = fn(&Town, &mut serde_json::Value);
    let changes: [(&str, Change); 4] = [
        ("takes no token back", |_, metadata| metadata["revocation_endpoint"] = json!(null)),
        ("https is wanted", |_, metadata| {
            metadata["revocation_endpoint"] = json!("http://elsewhere.example/revoke");
        }),
        ("404", |town, metadata| {
            metadata["revocation_endpoint"] = json!(format!("{}/nothing", town.base()));
        }),
        ("", |_, metadata| metadata["issuer"] = json!("https://elsewhere.example")),
    ];
    for (why, change) in changes {
        let is_changed = Arc::new(AtomicBool::new(false));
        let rule = is_changed.clone();
        let town = Town::ruled(move |town, asked| {
            let is_asked = asked.path() == "/.well-known/oauth-authorization-server/as";
            (is_asked && rule.load(Ordering::SeqCst)).then(|| {
                let mut metadata = town.metadata();
                change(town, &mut metadata);
                Answer::json(200, &metadata)
            })
        });
        let mine = account(&town.server(), &Tokens::memory(), settings());
        list(&town.server(), mine.clone()).await.unwrap();
        is_changed.store(true, Ordering::SeqCst);
        let returned = mine.logout().await.unwrap();
        let Some(Returned::Forgotten(told)) = returned else { panic!("{returned:?}") };
        assert!(told.contains(why) && !told.contains("t0ken"), "{told}");
        assert!(mine.granted().unwrap().is_none());
        assert!(town.asked().iter().all(|asked| asked.path() != "/revoke"));
    }
}

/// MCP-090: a token goes to the server it was given out for: not to its neighbour, not to another
/// path of the same origin, not to where a link leads.
#[tokio::test]
async fn a_token_goes_nowhere_else() {
    let (town, other) = (Town::honest(), Town::honest());
    let tokens = Tokens::memory();
    list(&town.server(), account(&town.server(), &tokens, settings())).await.unwrap();
    // Another server has an account of its own, with nothing in it.
    let elsewhere = account(&other.server(), &tokens, Settings::default());
    assert!(list(&other.server(), elsewhere).await.is_err());
    let path = format!("{}/other", town.base());
    assert!(account(&path, &tokens, Settings::default()).granted().unwrap().is_none());
    // An account that is used for the wrong server does not help it.
    let wrong = account(&town.server(), &tokens, Settings::default());
    assert!(list(&other.server(), wrong).await.is_err());
    assert!(!other.asked().is_empty());
    assert!(other.asked().iter().all(|asked| asked.authorization.is_none()));
}

/// MCP-090: a token that is over is renewed before it is used, one that is refused after, and by
/// one request for all that wait for it.
#[tokio::test]
async fn a_token_is_renewed() {
    let town = Town::honest();
    town.books().lifetime = 1;
    let tokens = Tokens::memory();
    let mine = account(&town.server(), &tokens, settings());
    mine.login(&mine.wish().await.unwrap()).await.unwrap();
    assert_eq!(town.grants("refresh_token").len(), 0);
    town.books().lifetime = 3600;
    assert_eq!(list(&town.server(), mine.clone()).await.unwrap(), 1);
    let refreshed = town.grants("refresh_token");
    assert_eq!(refreshed.len(), 1);
    assert_eq!(refreshed[0].field("client_secret").as_deref(), Some(CLIENT_SECRET));
    assert_eq!(refreshed[0].field("resource"), Some(town.server()));

    // The server has forgotten all tokens.
    town.books().good.clear();
    let server = town.server();
    let (one, two, three) = tokio::join!(
        list(&server, mine.clone()),
        list(&server, mine.clone()),
        list(&server, mine.clone())
    );
    assert_eq!([one.unwrap(), two.unwrap(), three.unwrap()], [1, 1, 1]);
    assert_eq!(town.grants("refresh_token").len(), 2);
    assert_eq!(town.grants("authorization_code").len(), 1);
}

/// MCP-090: where renewing is over too, somebody is asked; where nobody is there, that is said.
#[tokio::test]
async fn a_login_that_is_over_is_told() {
    let town = Town::ruled(|_, asked| {
        let is_refresh = asked.field("grant_type").as_deref() == Some("refresh_token");
        let refused = json!({"error": "invalid_grant", "error_description": "over"});
        (asked.is("POST", "/token") && is_refresh).then(|| Answer::json(400, &refused))
    });
    let tokens = Tokens::memory();
    let mine = account(&town.server(), &tokens, settings());
    town.books().lifetime = 1;
    mine.login(&mine.wish().await.unwrap()).await.unwrap();
    town.books().lifetime = 3600;
    list(&town.server(), mine.clone()).await.unwrap();
    assert_eq!(town.grants("authorization_code").len(), 2);
    town.books().good.clear();
    list(&town.server(), mine).await.unwrap();
    assert_eq!(town.grants("authorization_code").len(), 3);

    town.books().good.clear();
    let alone = account(&town.server(), &tokens, Settings::default());
    let error = list(&town.server(), alone).await.unwrap_err();
    assert!(is_unauthorized(&error) && error.to_string().contains("wants a login"), "{error}");
}

/// MCP-089: a token that does not reach far enough is exchanged for one that does, once.
#[tokio::test]
async fn more_is_asked_for_when_it_is_needed() {
    static WIDENED: AtomicBool = AtomicBool::new(false);
    let town = Town::ruled(|_, asked| {
        let is_call = asked.is("POST", "/mcp") && asked.body.contains("tools/list");
        if asked.field("scope").as_deref() == Some("read write") {
            WIDENED.store(true, Ordering::SeqCst);
        }
        (is_call && !WIDENED.load(Ordering::SeqCst) && asked.authorization.is_some()).then(|| {
            let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
            Answer::json(403, &json!({})).with("WWW-Authenticate", challenge)
        })
    });
    let tokens = Tokens::memory();
    let alone = account(&town.server(), &tokens, Settings::default());
    let mine = account(&town.server(), &tokens, settings());
    mine.login(&mine.wish().await.unwrap()).await.unwrap();
    let error = list(&town.server(), alone).await.unwrap_err();
    assert!(error.to_string().contains(r#"--scope "read write""#), "{error}");
    assert_eq!(list(&town.server(), mine).await.unwrap(), 1);
    assert_eq!(town.grants("authorization_code").len(), 2);
}

/// A server that is never content is not asked for ever.
#[tokio::test]
async fn a_server_that_is_never_content_is_given_up() {
    for status in [401, 403] {
        let town = Town::ruled(move |_, asked| {
            asked.is("POST", "/mcp").then(|| {
                let error = if status == 403 { "insufficient_scope" } else { "invalid_token" };
                let challenge = format!("Bearer error=\"{error}\", scope=\"read\"");
                let status = if asked.authorization.is_none() { 401 } else { status };
                Answer::json(status, &json!({})).with("WWW-Authenticate", &challenge)
            })
        });
        let mine = account(&town.server(), &Tokens::memory(), settings());
        let error = list(&town.server(), mine).await.unwrap_err();
        assert!(is_unauthorized(&error), "{error}");
        assert_eq!(town.grants("authorization_code").len(), 1, "{status}");
    }
}

/// MCP-089: a program logs in by a secret or a key, without a person, and again when it must.
#[tokio::test]
async fn a_program_logs_in_by_itself() {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
    for (secret, key) in [(Some("s3cret".to_owned()), None), (None, Some(key))] {
        let town = Town::honest();
        let tokens = Tokens::memory();
        let mut settings = Settings::default();
        settings.identity.client_id = Some("robot".to_owned());
        settings.identity.client_secret = secret.clone();
        settings.identity.client_key = key;
        settings.identity.is_program = true;
        let robot = account(&town.server(), &tokens, settings);
        assert_eq!(list(&town.server(), robot).await.unwrap(), 1);
        // Another process has only what is kept.
        town.books().good.clear();
        let again = account(&town.server(), &tokens, Settings::default());
        assert_eq!(list(&town.server(), again).await.unwrap(), 1);
        let grants = town.grants("client_credentials");
        assert_eq!(grants.len(), 2);
        for grant in grants {
            assert_eq!(grant.field("resource"), Some(town.server()));
            assert_eq!(grant.field("client_secret"), secret);
            assert_eq!(grant.field("client_assertion").is_some(), secret.is_none());
        }
    }
}

/// MCP-089: a client that was registered before, or has a document about it, registers nowhere.
#[tokio::test]
async fn a_client_that_is_known_is_not_registered() {
    const DOCUMENT: &str = "https://client.example/about.json";
    let town = Town::ruled(|town, asked| {
        let mut metadata = town.metadata();
        metadata["client_id_metadata_document_supported"] = true.into();
        let is_metadata = asked.is("GET", "/.well-known/oauth-authorization-server/as");
        is_metadata.then(|| Answer::json(200, &metadata))
    });
    for (id, document, expected) in [
        (Some("mine"), None, "mine"),
        (Some("mine"), Some(DOCUMENT), "mine"),
        (None, Some(DOCUMENT), DOCUMENT),
    ] {
        let mut settings = settings();
        settings.identity.client_id = id.map(str::to_owned);
        settings.identity.metadata_url = document.map(str::to_owned);
        list(&town.server(), account(&town.server(), &Tokens::memory(), settings)).await.unwrap();
        let grants = town.grants("authorization_code");
        assert_eq!(grants.last().unwrap().field("client_id").as_deref(), Some(expected));
    }
    assert!(town.asked().iter().all(|asked| asked.path() != "/register"));
}

/// MCP-090: a server that moves to another office is followed, but nothing of the old one is shown
/// to the new one.
#[tokio::test]
async fn what_one_office_gave_out_is_not_shown_to_another() {
    static MOVED: AtomicBool = AtomicBool::new(false);
    let new = Town::honest();
    let issuer = format!("{}/as", new.base());
    let town = Town::ruled(move |town, asked| {
        let is_resource = asked.path().starts_with("/.well-known/oauth-protected-resource");
        let moved = json!({"resource": town.server(), "authorization_servers": [issuer]});
        (is_resource && MOVED.load(Ordering::SeqCst)).then(|| Answer::json(200, &moved))
    });
    let tokens = Tokens::memory();
    let mine = account(&town.server(), &tokens, settings());
    list(&town.server(), mine.clone()).await.unwrap();
    MOVED.store(true, Ordering::SeqCst);
    town.books().good.clear();
    // The new office gives out the same tokens, by chance.
    let _ = list(&town.server(), mine).await;
    assert!(new.grants("refresh_token").is_empty() && town.grants("refresh_token").is_empty());
    assert!(new.asked().iter().any(|asked| asked.path() == "/register"));
    let told = format!("{:?}", new.asked());
    assert!(!told.contains("r3fresh") && !told.contains("t0ken"), "{told}");
}

fn is_unauthorized(error: &Error) -> bool {
    matches!(error, Error::Connect { source: TransportError::Unauthorized { .. }, .. })
}
