//! Finding the authorization server, wherever it is published.

use crate::support::town::{Answer, Asked, CLIENT_SECRET, Town};
use crate::support::{account, list, settings};
use mcp_flow_oauth::{OAuthError, Settings, Tokens, Wish};
use serde_json::{Value, json};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Documents of a town: a path and what is there. All else about discovery is not there.
type Documents = fn(&Town) -> Vec<(String, Answer)>;

fn town(challenge: &'static str, documents: Documents) -> std::sync::Arc<Town> {
    Town::ruled(move |town, asked| {
        if asked.path() == "/mcp" && asked.authorization.is_none() {
            return Some(Answer::json(401, &json!({})).with("WWW-Authenticate", challenge));
        }
        if !asked.path().contains("/.well-known/") {
            return None;
        }
        let found = documents(town).into_iter().find(|(path, _)| path == asked.path());
        Some(found.map_or_else(|| Answer::json(404, &json!({})), |(_, answer)| answer))
    })
}

fn resource(town: &Town, servers: &[String]) -> Answer {
    Answer::json(200, &json!({"resource": town.server(), "authorization_servers": servers}))
}

/// Metadata of the authorization server at a path.
fn metadata(town: &Town, path: &str) -> Answer {
    let mut metadata = town.metadata();
    metadata["issuer"] = format!("{}{path}", town.base()).into();
    Answer::json(200, &metadata)
}

/// MCP-089: the documents are found in every place where MCP has them.
#[tokio::test]
async fn metadata_is_found_wherever_it_is() {
    let cases: Vec<(&str, &'static str, Documents)> = vec![
        ("below the path", "Bearer", |town| {
            vec![
                (format!("{RESOURCE}/mcp"), resource(town, &[format!("{}/as", town.base())])),
                (format!("{OAUTH}/as"), metadata(town, "/as")),
            ]
        }),
        ("at the root", "Bearer", |town| {
            vec![
                (RESOURCE.to_owned(), resource(town, &[town.base()])),
                (OAUTH.to_owned(), metadata(town, "")),
            ]
        }),
        ("by OpenID", "Bearer", |town| {
            vec![
                (format!("/mcp{RESOURCE}"), resource(town, &[town.base()])),
                (OPENID.to_owned(), metadata(town, "/")),
            ]
        }),
        ("by OpenID below the path", "Bearer", |town| {
            vec![
                (RESOURCE.to_owned(), resource(town, &[format!("{}/as/", town.base())])),
                (format!("{OPENID}/as"), metadata(town, "/as/")),
            ]
        }),
        ("by OpenID behind the path", "Bearer", |town| {
            vec![
                (RESOURCE.to_owned(), resource(town, &[format!("{}/as", town.base())])),
                (format!("/as{OPENID}"), metadata(town, "/as")),
            ]
        }),
        ("where the challenge says", "Bearer resource_metadata=/x/.well-known/y", |town| {
            vec![
                ("/x/.well-known/y".to_owned(), resource(town, &[town.base()])),
                (OAUTH.to_owned(), metadata(town, "")),
            ]
        }),
        ("by its document", "Bearer", |town| {
            let document = format!("{}/as{OPENID}", town.base());
            vec![
                (RESOURCE.to_owned(), resource(town, &[document])),
                (format!("/as{OPENID}"), metadata(town, "/as")),
            ]
        }),
        // A server behind a proxy knows itself by another name.
        ("not where nobody gets", "Bearer resource_metadata=http://inside.example/", |town| {
            vec![
                (RESOURCE.to_owned(), resource(town, &[town.base()])),
                (OAUTH.to_owned(), metadata(town, "")),
            ]
        }),
        ("by the second", "Bearer", |town| {
            let servers = ["http://169.254.169.254".to_owned(), town.base()];
            vec![
                (RESOURCE.to_owned(), resource(town, &servers)),
                (OAUTH.to_owned(), metadata(town, "")),
            ]
        }),
        ("behind redirects of the origin", "Bearer", |town| {
            vec![
                (format!("{RESOURCE}/mcp"), Answer::sends_to(RESOURCE)),
                (RESOURCE.to_owned(), resource(town, &[town.base()])),
                (OAUTH.to_owned(), Answer::sends_to("/.well-known/moved")),
                ("/.well-known/moved".to_owned(), metadata(town, "")),
            ]
        }),
        ("of another document", "Bearer", |town| {
            let other = json!({"resource": "https://other.example/"});
            vec![
                (format!("{RESOURCE}/mcp"), Answer::json(200, &other)),
                (RESOURCE.to_owned(), resource(town, &[town.base()])),
                (OAUTH.to_owned(), metadata(town, "")),
            ]
        }),
        ("of the server itself", "Bearer", |town| vec![(OAUTH.to_owned(), metadata(town, ""))]),
        ("nowhere", "Bearer", |_| Vec::new()),
    ];
    for (name, challenge, documents) in cases {
        let town = town(challenge, documents);
        let mine = account(&town.server(), &Tokens::memory(), settings());
        let listed = list(&town.server(), mine.clone()).await;
        assert_eq!(listed.unwrap_or_else(|error| panic!("{name}: {error}")), 1, "{name}");
        let grants = town.grants("authorization_code");
        assert_eq!(grants[0].field("resource"), Some(town.server()), "{name}");
        // Where nothing is published, the endpoints of MCP 2025-03-26 are those of nobody.
        let issuer = mine.granted().unwrap().unwrap().issuer;
        assert_eq!(issuer.is_none(), name == "nowhere", "{name}: {issuer:?}");
    }
}

/// MCP-089: a server that asks for no token and publishes nothing is not asked for a login.
#[tokio::test]
async fn a_server_that_asks_for_nothing_is_left_alone() {
    let town = town("Bearer", |_| Vec::new());
    let mine = account(&town.server(), &Tokens::memory(), settings());
    let refused = mine.login(&Wish::default()).await;
    assert!(matches!(refused, Err(OAuthError::NoLogin(_))), "{refused:?}");
    assert!(town.asked().iter().all(|asked| asked.method == "GET"));
}

/// MCP-090: redirects end, and a document that goes round in circles is not waited for.
#[tokio::test]
async fn redirects_in_circles_are_given_up() {
    let town = town("Bearer", |_| vec![(format!("{RESOURCE}/mcp"), Answer::sends_to("mcp"))]);
    let mine = account(&town.server(), &Tokens::memory(), settings());
    let error = mine.login(&mine.wish().await.unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("too many redirects"), "{error}");
    assert!(town.asked().len() < 20, "{}", town.asked().len());
}

/// MCP-089: a secret goes into a header where the authorization server takes it there, as a form
/// would have it, and refreshing asks for the scopes that were granted.
#[tokio::test]
async fn secrets_and_scopes_go_where_they_are_wanted() {
    let town = Town::ruled(|town: &Town, asked: &Asked| {
        let mut metadata: Value = town.metadata();
        metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
        metadata["scopes_supported"] = json!(["read", "offline_access"]);
        let is_metadata = asked.is("GET", "/.well-known/oauth-authorization-server/as");
        is_metadata.then(|| Answer::json(200, &metadata))
    });
    let tokens = Tokens::memory();
    list(&town.server(), account(&town.server(), &tokens, settings())).await.unwrap();
    town.books().good.clear();
    list(&town.server(), account(&town.server(), &tokens, Settings::default())).await.unwrap();
    let pages = town.asked().into_iter().filter(|asked| asked.path() == "/authorize");
    let scopes: Vec<_> = pages.filter_map(|page| page.field("scope")).collect();
    assert_eq!(scopes, ["read offline_access"]);
    let refreshed = town.grants("refresh_token");
    assert_eq!(refreshed[0].field("scope").as_deref(), Some("read offline_access"));
    for asked in town.grants("authorization_code").into_iter().chain(refreshed) {
        // registered:s3cret-of-the-client
        let expected = "Basic cmVnaXN0ZXJlZDpzM2NyZXQtb2YtdGhlLWNsaWVudA==";
        assert_eq!(asked.authorization.as_deref(), Some(expected));
        assert!(!asked.body.contains(CLIENT_SECRET) && !asked.body.contains("client_id"));
    }
}
