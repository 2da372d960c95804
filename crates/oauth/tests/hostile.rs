//! Offices that are not to be trusted: bounded, refused, and told nothing.

use std::sync::Arc;
use std::time::Duration;

use crate::support::town::{Answer, Asked, CLIENT_SECRET, CODE, Town};
use crate::support::{account, settings};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use mcp_flow_http::client::{Addresses, Fetch, HttpOptions};
use mcp_flow_oauth::{Tokens, Visitor};
use serde_json::{Value, json};
use url::Url;

const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const OFFICE: &str = "/.well-known/oauth-authorization-server/as";

type Rule = Box<dyn Fn(&Town, &Asked) -> Option<Answer> + Send + Sync>;

/// Answers a path.
fn at(path: &'static str, answer: impl Fn(&Town) -> Answer + Send + Sync + 'static) -> Rule {
    Box::new(move |town, asked| (asked.path() == path).then(|| answer(town)))
}

/// Changes what the office says of itself.
fn saying(name: &'static str, value: impl Into<Value>) -> Rule {
    let value = value.into();
    at(OFFICE, move |town| {
        let mut metadata = town.metadata();
        metadata[name] = value.clone();
        Answer::json(200, &metadata)
    })
}

/// Changes whom the server names.
fn naming(office: &'static str) -> Rule {
    at(RESOURCE, move |town| {
        Answer::json(200, &json!({"resource": town.server(), "authorization_servers": [office]}))
    })
}

/// MCP-090, INT-106: whatever an office does, the login ends in bounded time with a sentence that
/// shows no secret, nothing is kept, and nobody else hears of it.
#[tokio::test]
async fn a_hostile_office_gets_nowhere() {
    let other = Town::honest();
    let elsewhere = format!("{}/elsewhere", other.base());
    let to_elsewhere = || {
        let elsewhere = elsewhere.clone();
        move |_: &Town| Answer::sends_to(&elsewhere)
    };
    let long = "x".repeat(1 << 20);
    let echo: Rule = Box::new(|_, asked| {
        let said = json!({"error": "invalid_request", "error_description": asked.body});
        asked.is("POST", "/token").then(|| Answer::json(400, &said))
    });
    let cases: Vec<(&str, Rule, &str)> = vec![
        ("the resource is elsewhere", at(RESOURCE, to_elsewhere()), "redirect"),
        ("the office is elsewhere", at(OFFICE, to_elsewhere()), "redirect"),
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
        ("an office in the clear", naming("http://as.example"), "https"),
        ("an office of a cloud", naming("http://169.254.169.254/latest"), "none published"),
        ("an office next door", naming("http://192.168.0.1/"), "none published"),
        ("an office that is none", naming("file:///etc/passwd"), "none published"),
        (
            "the resource of another server",
            at(RESOURCE, |_| {
                Answer::json(
                    200,
                    &json!({"resource": "https://bank.example/mcp",
                    "authorization_servers": ["https://evil.example"]}),
                )
            }),
            "mismatch",
        ),
        (
            "a long document",
            at(OFFICE, move |_| Answer::json(200, &json!({"issuer": long}))),
            "bytes",
        ),
        ("a document that never comes", at(OFFICE, |_| Answer::Silence), "no answer within"),
        ("a token that never comes", at("/token", |_| Answer::Silence), "refused"),
        ("an office that is broken", at(OFFICE, |_| Answer::json(500, &json!({}))), "500"),
        ("an office that repeats what it was told", echo, "(hidden)"),
        ("no token", at("/token", |_| Answer::json(200, &json!({"token": "t0ken"}))), "refused"),
        (
            "a token of another kind",
            at("/token", |_| {
                Answer::json(200, &json!({"access_token": "t0ken", "token_type": "DPoP"}))
            }),
            "Bearer",
        ),
        (
            "a token with a line end",
            at("/token", |_| {
                Answer::json(200, &json!({"access_token": "t0ken\r\nX: y", "token_type": "bearer"}))
            }),
            "header",
        ),
        (
            "words for the terminal",
            at("/register", |_| Answer::json(400, &json!({"error": "\u{1b}[2J no"}))),
            "refused",
        ),
    ];
    for (name, rule, part) in cases {
        let town = Town::ruled(rule);
        let tokens = Tokens::memory();
        let mut settings = settings();
        settings.time_limit = Duration::from_millis(500);
        let mine = account(&town.server(), &tokens, settings);
        let error = mine.login(&mine.wish().await.unwrap()).await.unwrap_err();
        let told = format!("{error} {error:?}");
        assert!(told.contains(part), "{name}: {told}");
        for secret in [CODE, CLIENT_SECRET, "t0ken", "\u{1b}"] {
            assert!(!told.contains(secret), "{name}: {told}");
        }
        assert!(told.len() < 2000, "{name}: {told}");
        assert!(mine.granted().unwrap().is_none(), "{name}");
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
}

/// Comes back with whatever it was told to.
#[derive(Debug)]
struct Liar(Lie);

type Lie = fn(&Url) -> String;

impl Visitor for Liar {
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

/// MCP-090: who is sent back by somebody else, for another login, or with a no, brings no token; and
/// the code they bring is shown to nobody.
#[tokio::test]
async fn a_visitor_is_not_believed_blindly() {
    let cases: [(Lie, &str); 6] = [
        (|_| "http://127.0.0.1:1/callback?code=c0de&state=other".to_owned(), "another login"),
        (|_| "http://127.0.0.1:1/callback?code=c0de".to_owned(), "another login"),
        (|_| "what?".to_owned(), "no address"),
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
    for (lie, part) in cases {
        let town = Town::honest();
        let mut settings = settings();
        settings.visitor = Some(Arc::new(Liar(lie)));
        let mine = account(&town.server(), &Tokens::memory(), settings);
        let error = mine.login(&mine.wish().await.unwrap()).await.unwrap_err().to_string();
        assert!(
            error.contains(part) && !error.contains("c0de") && !error.contains('\u{1b}'),
            "{error}"
        );
        assert!(town.grants("authorization_code").is_empty(), "{error}");
    }
}

/// MCP-090: a host is dialled only where it may be, wherever its name leads.
#[tokio::test]
async fn an_address_out_of_bounds_is_not_dialled() {
    let town = Town::honest();
    let url = Url::parse(&town.server()).unwrap();
    for (is_allowed, expected) in [(false, "out of bounds"), (true, "401")] {
        let addresses = Addresses::only(move |host, address| {
            assert_eq!((host, address.to_string().as_str()), ("127.0.0.1", "127.0.0.1"));
            is_allowed
        });
        let options = HttpOptions::new().addresses(addresses);
        let fetch = Fetch::new(&options, 1024, Duration::from_secs(10)).unwrap();
        let request = Request::get(url.as_str()).body(Bytes::new()).unwrap();
        let told = match fetch.send(request).await {
            Ok(answer) => answer.status().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(expected), "{told}");
        assert_eq!(town.asked().is_empty(), !is_allowed);
    }
}

/// What is no server one could log in to is told before anything is sent.
#[tokio::test]
async fn one_logs_in_over_https() {
    let mine = account("http://mcp.example/mcp", &Tokens::memory(), settings());
    let error = mine.wish().await.unwrap_err().to_string();
    assert!(error.contains("https"), "{error}");
}
