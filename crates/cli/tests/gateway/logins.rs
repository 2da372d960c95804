//! `auth = "user"`: each principal logs in to a server by a URL, and uses its own account there.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use mcp_flow::client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow::client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow::client::{Client, Host, HttpOptions};
use mcp_flow_testkit::http::Request;
use serde_json::{Map, Value, json};
use url::{Position, Url};

use super::contract::Server;
use super::servers;
use crate::login::get_location;
use crate::support::test_server::{Reply, TestServer};

/// A person who opens the page of a login, reads it, and follows its link.
struct Person {
    pages: Arc<Mutex<Vec<String>>>,
}

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: true });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let Elicitation::Url { url, .. } = question else { return ElicitAnswer::Cancel };
            let (_, page) = visit(&url.parse().unwrap()).await;
            let link = page.split("href=\"").nth(1).and_then(|rest| rest.split('"').next());
            let link = link.unwrap_or_else(|| panic!("{page}")).replace("&amp;", "&");
            let link = link.parse().unwrap();
            let redirect = tokio::task::block_in_place(|| get_location(&link));
            let (status, returned) = visit(&redirect).await;
            assert!(status == 200 && returned.contains("close this page"), "{returned}");
            // A redirect counts once.
            assert_eq!(visit(&redirect).await.0, 404);
            self.pages.lock().unwrap().push(page);
            ElicitAnswer::Accept(Map::new())
        })
    }
}

/// Visits a page of the gateway.
async fn visit(url: &Url) -> (u16, String) {
    let address = url.socket_addrs(|| None).unwrap()[0];
    let mut response = Request::get(&url[Position::BeforePath..]).send(address).await;
    (response.status, response.text().await)
}

/// A protected server that says with which token its tool is called. All tokens stay valid.
fn protected_server() -> Arc<TestServer> {
    TestServer::with_rule(|server, request| {
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        if request.path() == "/token" {
            let before = server.state().valid_tokens.clone();
            let reply = server.reply(request);
            server.state().valid_tokens.extend(before);
            return Some(reply);
        }
        let token = request.authorization.as_deref()?.strip_prefix("Bearer ")?.to_owned();
        let is_call = message["method"] == "tools/call";
        if !is_call || !server.state().valid_tokens.contains(&token) {
            return None;
        }
        let result = json!({"content": [{"type": "text", "text": token}]});
        Some(Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result})))
    })
}

/// Users are asked once, also over restarts. Their tokens are encrypted in a file of the operator, and the
/// tokens with which they use the gateway reach nobody.
#[tokio::test(flavor = "multi_thread")]
async fn each_principal_logs_in_by_a_url() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = protected_server();
    let file = servers(folder.path(), &json!({"url": upstream.url(), "auth": "user"}));
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "ada:ada-inbound-token\nbob:bob-inbound-token\n").unwrap();
    std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o600)).unwrap();
    let store = format!("sqlite:{}", folder.path().join("journal.db").display());
    let (file, tokens) = (file.display().to_string(), tokens.display().to_string());
    let mut expected = Vec::new();
    for start in 0..2 {
        let options = ["--gateway", &file, "--store", &store, "--token-file", &tokens];
        let server = Server::start(&options);
        for name in ["ada", "bob"] {
            let pages = Arc::<Mutex<Vec<String>>>::default();
            let bearer = format!("Bearer {name}-inbound-token");
            let options = HttpOptions::new().header("Authorization", &bearer).unwrap();
            let connector = mcp_flow::client::connector(server.url(), &options).unwrap();
            let person = Person { pages: pages.clone() };
            let client = Client::builder().host(person).prepare(connector);
            let called = client.call_tool("up.greet", json!({})).await;
            // Nothing was listed before the first login.
            let called = match called {
                Err(error) if start == 0 && name == "ada" => {
                    assert_eq!(error.server().unwrap().name(), Some("UNKNOWN_TOOL"), "{error}");
                    client.call_tool("up.login", json!({})).await.unwrap();
                    while client
                        .tools()
                        .all()
                        .await
                        .unwrap()
                        .iter()
                        .all(|tool| tool.name != "up.greet")
                    {}
                    client.call_tool("up.greet", json!({})).await.unwrap()
                }
                called => called.unwrap(),
            };
            match start {
                0 => expected.push(called.text()),
                _ => assert!(expected.contains(&called.text())),
            }
            let pages = pages.lock().unwrap().clone();
            assert_eq!(pages.len(), 1 - start, "{pages:?}");
            assert!(pages.iter().all(|page| page.contains(&format!("<b>{name}</b>"))), "{pages:?}");
        }
    }
    assert_eq!(expected, ["t0ken-1", "t0ken-2"]);
    assert_eq!(upstream.grants("authorization_code").len(), 2);
    let kept = folder.path().join("journal.accounts");
    assert!(!std::fs::read_to_string(&kept).unwrap().contains("t0ken"));
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let inbound =
        |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("inbound"));
    assert!(!upstream.requests().iter().any(|request| inbound(&request.authorization)));
}
