//! Discovery of the authorization server.

use crate::support::test_server::{CLIENT_SECRET, Received, Reply, TestServer};
use crate::support::{account, list, settings};
use mcp_flow_oauth::{LoginSettings, OAuthError, TokenRequest, TokenStore};
use serde_json::{Value, json};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Metadata documents of a server by path; every other well-known path is 404.
type Documents = fn(&TestServer) -> Vec<(String, Reply)>;

fn server(challenge: &'static str, documents: Documents) -> std::sync::Arc<TestServer> {
    TestServer::with_rule(move |server, request| {
        if request.path() == "/mcp" && request.authorization.is_none() {
            return Some(Reply::json(401, &json!({})).with("WWW-Authenticate", challenge));
        }
        if !request.path().contains("/.well-known/") {
            return None;
        }
        let found = documents(server).into_iter().find(|(path, _)| path == request.path());
        Some(found.map_or_else(|| Reply::json(404, &json!({})), |(_, answer)| answer))
    })
}

fn resource(server: &TestServer, servers: &[String]) -> Reply {
    Reply::json(200, &json!({"resource": server.url(), "authorization_servers": servers}))
}

/// Returns the metadata of the authorization server at a path.
fn metadata(server: &TestServer, path: &str) -> Reply {
    let mut metadata = server.metadata();
    metadata["issuer"] = format!("{}{path}", server.base()).into();
    Reply::json(200, &metadata)
}

/// MCP-089: metadata is found at every well-known URL of MCP.
#[tokio::test]
async fn metadata_is_found_at_every_well_known_url() {
    let cases: Vec<(&str, &'static str, Documents)> = vec![
        ("below the path", "Bearer", |server| {
            vec![
                (format!("{RESOURCE}/mcp"), resource(server, &[format!("{}/as", server.base())])),
                (format!("{OAUTH}/as"), metadata(server, "/as")),
            ]
        }),
        ("at the root", "Bearer", |server| {
            vec![
                (RESOURCE.to_owned(), resource(server, &[server.base()])),
                (OAUTH.to_owned(), metadata(server, "")),
            ]
        }),
        ("by OpenID", "Bearer", |server| {
            vec![
                (format!("/mcp{RESOURCE}"), resource(server, &[server.base()])),
                (OPENID.to_owned(), metadata(server, "/")),
            ]
        }),
        ("by OpenID below the path", "Bearer", |server| {
            vec![
                (RESOURCE.to_owned(), resource(server, &[format!("{}/as/", server.base())])),
                (format!("{OPENID}/as"), metadata(server, "/as/")),
            ]
        }),
        ("by OpenID behind the path", "Bearer", |server| {
            vec![
                (RESOURCE.to_owned(), resource(server, &[format!("{}/as", server.base())])),
                (format!("/as{OPENID}"), metadata(server, "/as")),
            ]
        }),
        ("where the challenge says", "Bearer resource_metadata=/x/.well-known/y", |server| {
            vec![
                ("/x/.well-known/y".to_owned(), resource(server, &[server.base()])),
                (OAUTH.to_owned(), metadata(server, "")),
            ]
        }),
        ("by its document", "Bearer", |server| {
            let document = format!("{}/as{OPENID}", server.base());
            vec![
                (RESOURCE.to_owned(), resource(server, &[document])),
                (format!("/as{OPENID}"), metadata(server, "/as")),
            ]
        }),
        // A server behind a proxy names an internal URL.
        ("not at an internal URL", "Bearer resource_metadata=http://inside.example/", |server| {
            vec![
                (RESOURCE.to_owned(), resource(server, &[server.base()])),
                (OAUTH.to_owned(), metadata(server, "")),
            ]
        }),
        ("by the second", "Bearer", |server| {
            let servers = ["http://169.254.169.254".to_owned(), server.base()];
            vec![
                (RESOURCE.to_owned(), resource(server, &servers)),
                (OAUTH.to_owned(), metadata(server, "")),
            ]
        }),
        ("behind redirects of the origin", "Bearer", |server| {
            vec![
                (format!("{RESOURCE}/mcp"), Reply::redirect_to(RESOURCE)),
                (RESOURCE.to_owned(), resource(server, &[server.base()])),
                (OAUTH.to_owned(), Reply::redirect_to("/.well-known/moved")),
                ("/.well-known/moved".to_owned(), metadata(server, "")),
            ]
        }),
        ("of another document", "Bearer", |server| {
            let other = json!({"resource": "https://other.example/"});
            vec![
                (format!("{RESOURCE}/mcp"), Reply::json(200, &other)),
                (RESOURCE.to_owned(), resource(server, &[server.base()])),
                (OAUTH.to_owned(), metadata(server, "")),
            ]
        }),
        ("of the server itself", "Bearer", |server| vec![(OAUTH.to_owned(), metadata(server, ""))]),
        ("nowhere", "Bearer", |_| Vec::new()),
    ];
    for (name, challenge, documents) in cases {
        let server = server(challenge, documents);
        let mine = account(&server.url(), &TokenStore::memory(), settings());
        let listed = list(&server.url(), mine.clone()).await;
        assert_eq!(listed.unwrap_or_else(|error| panic!("{name}: {error}")), 1, "{name}");
        let grants = server.grants("authorization_code");
        assert_eq!(grants[0].field("resource"), Some(server.url()), "{name}");
        // Without metadata, the default endpoints of MCP 2025-03-26 have no issuer.
        let issuer = mine.grant().unwrap().unwrap().issuer;
        assert_eq!(issuer.is_none(), name == "nowhere", "{name}: {issuer:?}");
    }
}

/// MCP-089: a login at a server that requires no token and publishes nothing fails.
#[tokio::test]
async fn servers_without_authorization_reject_a_login() {
    let server = server("Bearer", |_| Vec::new());
    let mine = account(&server.url(), &TokenStore::memory(), settings());
    let refused = mine.login(&TokenRequest::default()).await;
    assert!(matches!(refused, Err(OAuthError::NoAuthorizationServer(_))), "{refused:?}");
    assert!(server.requests().iter().all(|request| request.method == "GET"));
}

/// MCP-090: redirect loops are given up.
#[tokio::test]
async fn redirect_loops_are_given_up() {
    let server = server("Bearer", |_| vec![(format!("{RESOURCE}/mcp"), Reply::redirect_to("mcp"))]);
    let mine = account(&server.url(), &TokenStore::memory(), settings());
    let error = mine.login(&mine.token_request().await.unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("too many redirects"), "{error}");
    assert!(server.requests().len() < 20, "{}", server.requests().len());
}

/// MCP-089: the secret is sent by the supported method, and a refresh requests the granted scopes.
#[tokio::test]
async fn secrets_use_the_supported_method() {
    let server = TestServer::with_rule(|server: &TestServer, request: &Received| {
        let mut metadata: Value = server.metadata();
        metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
        metadata["scopes_supported"] = json!(["read", "offline_access"]);
        let is_metadata = request.is("GET", "/.well-known/oauth-authorization-server/as");
        is_metadata.then(|| Reply::json(200, &metadata))
    });
    let tokens = TokenStore::memory();
    list(&server.url(), account(&server.url(), &tokens, settings())).await.unwrap();
    server.state().valid_tokens.clear();
    list(&server.url(), account(&server.url(), &tokens, LoginSettings::default())).await.unwrap();
    let pages = server.requests().into_iter().filter(|request| request.path() == "/authorize");
    let scopes: Vec<_> = pages.filter_map(|page| page.field("scope")).collect();
    assert_eq!(scopes, ["read offline_access"]);
    let refreshed = server.grants("refresh_token");
    assert_eq!(refreshed[0].field("scope").as_deref(), Some("read offline_access"));
    for request in server.grants("authorization_code").into_iter().chain(refreshed) {
        // registered:s3cret-of-the-client
        let expected = "Basic cmVnaXN0ZXJlZDpzM2NyZXQtb2YtdGhlLWNsaWVudA==";
        assert_eq!(request.authorization.as_deref(), Some(expected));
        assert!(!request.body.contains(CLIENT_SECRET) && !request.body.contains("client_id"));
    }
}
