//! Hostile authorization servers and redirects.

use std::sync::Arc;
use std::time::Duration;

use crate::support::test_server::{CLIENT_SECRET, CODE, Received, Reply, TestServer};
use crate::support::{account, settings};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use mcp_flow_http_client::{AllowedAddresses, Fetch, HttpOptions};
use mcp_flow_oauth::{TokenStore, UserAgent};
use serde_json::{Value, json};
use url::Url;

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const AUTHORIZATION_SERVER: &str = "/.well-known/oauth-authorization-server/as";

type Rule = Box<dyn Fn(&TestServer, &Received) -> Option<Reply> + Send + Sync>;

/// Rule that replies at a path.
fn at(path: &'static str, answer: impl Fn(&TestServer) -> Reply + Send + Sync + 'static) -> Rule {
    Box::new(move |server, request| (request.path() == path).then(|| answer(server)))
}

/// Rule that changes a member of the authorization server metadata.
fn saying(name: &'static str, value: impl Into<Value>) -> Rule {
    let value = value.into();
    at(AUTHORIZATION_SERVER, move |server| {
        let mut metadata = server.metadata();
        metadata[name] = value.clone();
        Reply::json(200, &metadata)
    })
}

/// Rule that changes the authorization server that the protected server names.
fn naming(issuer: &'static str) -> Rule {
    at(RESOURCE, move |server| {
        Reply::json(200, &json!({"resource": server.url(), "authorization_servers": [issuer]}))
    })
}

/// MCP-090, INT-106: whatever an authorization server does, the login fails in bounded time with an
/// error without secrets, nothing is stored, and no other server is contacted.
#[tokio::test]
async fn hostile_authorization_servers_are_contained() {
    let other = TestServer::new();
    let elsewhere = format!("{}/elsewhere", other.base());
    let to_elsewhere = || {
        let elsewhere = elsewhere.clone();
        move |_: &TestServer| Reply::redirect_to(&elsewhere)
    };
    let long = "x".repeat(1 << 20);
    let echo: Rule = Box::new(|_, request| {
        let said = json!({"error": "invalid_request", "error_description": request.body});
        request.is("POST", "/token").then(|| Reply::json(400, &said))
    });
    let cases: Vec<(&str, Rule, &str)> = vec![
        ("the resource is elsewhere", at(RESOURCE, to_elsewhere()), "redirect"),
        (
            "the authorization server is elsewhere",
            at(AUTHORIZATION_SERVER, to_elsewhere()),
            "redirect",
        ),
        ("registering is elsewhere", at("/register", to_elsewhere()), "307"),
        ("tokens are elsewhere", at("/token", to_elsewhere()), "refused"),
        ("another issuer", saying("issuer", "https://evil.example"), "issuer mismatch"),
        ("no issuer", saying("issuer", Value::Null), "issuer"),
        ("no PKCE", saying("code_challenge_methods_supported", json!(["plain"])), "S256"),
        ("a page in the clear", saying("authorization_endpoint", "http://as.example/a"), "https"),
        ("a page that is none", saying("authorization_endpoint", "javascript:alert(1)"), "https"),
        ("tokens in the clear", saying("token_endpoint", "http://as.example/t"), "https"),
        (
            "registering in the clear",
            saying("registration_endpoint", "http://as.example/"),
            "https",
        ),
        ("an authorization server without TLS", naming("http://as.example"), "https"),
        ("cloud instance metadata", naming("http://169.254.169.254/latest"), "none published"),
        (
            "an authorization server in a private network",
            naming("http://192.168.0.1/"),
            "none published",
        ),
        ("an authorization server that is a file", naming("file:///etc/passwd"), "none published"),
        (
            "the resource of another server",
            at(RESOURCE, |_| {
                Reply::json(
                    200,
                    &json!({"resource": "https://bank.example/mcp",
                    "authorization_servers": ["https://evil.example"]}),
                )
            }),
            "mismatch",
        ),
        (
            "a long document",
            at(AUTHORIZATION_SERVER, move |_| Reply::json(200, &json!({"issuer": long}))),
            "bytes",
        ),
        (
            "a document that never comes",
            at(AUTHORIZATION_SERVER, |_| Reply::Silence),
            "no response within",
        ),
        ("a token that never comes", at("/token", |_| Reply::Silence), "refused"),
        (
            "a failing authorization server",
            at(AUTHORIZATION_SERVER, |_| Reply::json(500, &json!({}))),
            "500",
        ),
        ("an error that echoes secrets", echo, "(hidden)"),
        ("no token", at("/token", |_| Reply::json(200, &json!({"token": "t0ken"}))), "refused"),
        (
            "a token of another kind",
            at("/token", |_| {
                Reply::json(200, &json!({"access_token": "t0ken", "token_type": "DPoP"}))
            }),
            "Bearer",
        ),
        (
            "a token with a line end",
            at("/token", |_| {
                Reply::json(200, &json!({"access_token": "t0ken\r\nX: y", "token_type": "bearer"}))
            }),
            "header",
        ),
        (
            "words for the terminal",
            at("/register", |_| Reply::json(400, &json!({"error": "\u{1b}[2J no"}))),
            "refused",
        ),
    ];
    for (name, rule, part) in cases {
        let server = TestServer::with_rule(rule);
        let tokens = TokenStore::memory();
        let mut settings = settings();
        settings.time_limit = Duration::from_millis(500);
        let mine = account(&server.url(), &tokens, settings);
        let error = mine.login(&mine.token_request().await.unwrap()).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(part), "{name}: {shown}");
        for secret in [CODE, CLIENT_SECRET, "t0ken", "\u{1b}"] {
            assert!(!shown.contains(secret), "{name}: {shown}");
        }
        assert!(shown.len() < 2000, "{name}: {shown}");
        assert!(mine.grant().unwrap().is_none(), "{name}");
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

/// User agent that returns a forged redirect URL.
#[derive(Debug)]
struct ForgingUserAgent(Forge);

type Forge = fn(&Url) -> String;

impl UserAgent for ForgingUserAgent {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:1/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move { Ok((self.0)(page)) })
    }
}

fn state(page: &Url) -> String {
    page.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned()
}

/// MCP-090: a redirect with another state or issuer, or with an error, yields no token, and its code
/// is not shown.
#[tokio::test]
async fn forged_redirects_are_rejected() {
    let cases: [(Forge, &str); 6] = [
        (|_| "http://127.0.0.1:1/callback?code=c0de&state=other".to_owned(), "another login"),
        (|_| "http://127.0.0.1:1/callback?code=c0de".to_owned(), "another login"),
        (|_| "what?".to_owned(), "not a valid URL"),
        (
            |page| {
                format!(
                    "http://h/?error=access_denied&error_description=%1B%5B2J&state={}",
                    state(page)
                )
            },
            "access_denied",
        ),
        (|page| format!("http://h/?state={}", state(page)), "code"),
        (
            |page| format!("http://h/?code=c0de&iss=https://evil.example&state={}", state(page)),
            "issuer",
        ),
    ];
    for (forge, part) in cases {
        let server = TestServer::new();
        let mut settings = settings();
        settings.user_agent = Some(Arc::new(ForgingUserAgent(forge)));
        let mine = account(&server.url(), &TokenStore::memory(), settings);
        let error = mine.login(&mine.token_request().await.unwrap()).await.unwrap_err().to_string();
        assert!(
            error.contains(part) && !error.contains("c0de") && !error.contains('\u{1b}'),
            "{error}"
        );
        assert!(server.grants("authorization_code").is_empty(), "{error}");
    }
}

/// MCP-090: addresses that are not allowed are not dialled.
#[tokio::test]
async fn forbidden_addresses_are_not_dialled() {
    let server = TestServer::new();
    let url = Url::parse(&server.url()).unwrap();
    for (is_allowed, expected) in [(false, "not allowed"), (true, "401")] {
        let addresses = AllowedAddresses::only(move |host, address| {
            assert_eq!((host, address.to_string().as_str()), ("127.0.0.1", "127.0.0.1"));
            is_allowed
        });
        let options = HttpOptions::new().addresses(addresses);
        let fetch = Fetch::new(&options, 1024, Duration::from_secs(10)).unwrap();
        let request = Request::get(url.as_str()).body(Bytes::new()).unwrap();
        let shown = match fetch.send(request).await {
            Ok(response) => response.status().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
        assert_eq!(server.requests().is_empty(), !is_allowed);
    }
}

/// A login over plain http fails before anything is sent.
#[tokio::test]
async fn logins_require_https() {
    let mine = account("http://mcp.example/mcp", &TokenStore::memory(), settings());
    let error = mine.token_request().await.unwrap_err().to_string();
    assert!(error.contains("https"), "{error}");
}
