//! Authentication over HTTP: challenges for clients without a valid token, and expiry (C-46).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::support::{Running, call, in_session, initialize, start_with, stateless_post};
use mcp_flow_http::{Options, Verifier};
use mcp_flow_identity::{StaticTokens, TokenHash};
use mcp_flow_server::identity::{TokenRejected, TokenRequirements, Verification};
use mcp_flow_server::permissions::{AccessRule, Names};
use mcp_flow_server::{Bulk, Context, Permissions, Principal, Server, Tool};
use mcp_flow_testkit::http::{Connection, Request};
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

/// Verifier with a few tokens that names an authorization server.
#[derive(Debug)]
struct TestVerifier {
    ada: Principal,
    terms: Arc<TokenRequirements>,
}

impl TestVerifier {
    fn new() -> Arc<Self> {
        let terms = TokenRequirements {
            authorization_servers: vec!["https://login.example".into()],
            required_scopes: vec!["use".into()],
            scopes: vec!["use".into(), "admin".into()],
            proofs: None,
        };
        Arc::new(Self { ada: Principal::named("corp:ada").scoped(["use"]), terms: Arc::new(terms) })
    }
}

impl Verifier for TestVerifier {
    fn verify<'a>(&'a self, token: &'a str) -> Verification<'a> {
        Verification::Now(match token {
            "ada" => Ok(self.ada.clone()),
            "ada-later" => Ok(Principal::named("corp:ada").scoped(["use", "more"])),
            "poor" => Err(TokenRejected::Scope(vec!["use".into()])),
            "soon" => {
                return Verification::Later(Box::pin(async { Err(TokenRejected::Unavailable) }));
            }
            "brief" => {
                let end = SystemTime::now() + Duration::from_millis(1500);
                Ok(Principal::named("corp:ada").until(end))
            }
            _ => Err(TokenRejected::Unknown),
        })
    }

    fn requirements(&self) -> Arc<TokenRequirements> {
        self.terms.clone()
    }
}

async fn open(verifier: Arc<TestVerifier>, options: Options) -> Running {
    start_with(&Fixture::new().server, |bound| bound.options(options).verifier(verifier)).await
}

fn with(request: Request, token: &str) -> Request {
    request.header("authorization", &format!("Bearer {token}"))
}

/// MCP-089: the challenge names the missing scope and the resource metadata.
#[tokio::test]
async fn challenges_name_scope_and_metadata() {
    let running = open(TestVerifier::new(), Options::default()).await;
    let base = format!("http://localhost:{}", running.address.port());
    let host = &base["http://".len()..];
    for (token, status, said) in [
        (None, 401, "Bearer scope=\"use\""),
        (Some("x"), 401, "Bearer error=\"invalid_token\", scope=\"use\""),
        (Some("poor"), 403, "Bearer error=\"insufficient_scope\", scope=\"use\""),
        (Some("soon"), 503, ""),
    ] {
        for (path, endpoint) in
            [("/mcp", "/mcp"), ("/sse", "/sse"), ("/ws", "/ws"), ("/metrics", "/mcp")]
        {
            let metadata = format!("{base}/.well-known/oauth-protected-resource{endpoint}");
            let challenge = match said {
                "" => String::new(),
                said => format!("{said}, resource_metadata=\"{metadata}\""),
            };
            let mut request = Request::get(path).header("host", host);
            if let Some(token) = token {
                request = with(request, token);
            }
            let answer = running.send(request).await;
            assert_eq!(answer.status, status, "{path} {token:?}");
            let shown = answer.header("www-authenticate").unwrap_or_default();
            assert_eq!(shown, challenge, "{path}");
        }
    }
    let twice = "Bearer ada\r\nauthorization: Bearer ada";
    let twice = running.send(initialize("2025-11-25").header("authorization", twice)).await;
    assert_eq!(twice.status, 401, "somebody may have looked at the other one");
    for (path, endpoint) in [
        ("", "/mcp"),
        ("/mcp", "/mcp"),
        ("/sse", "/sse"),
        ("/ws", "/ws"),
        ("/mcp-flow", "/mcp-flow"),
    ] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let mut answer = running.send(Request::get(&path).header("host", host)).await;
        assert_eq!(answer.status, 200);
        let shown = answer.json().await;
        assert_eq!(shown["resource"], format!("{base}{endpoint}"));
        assert_eq!(shown["authorization_servers"], json!(["https://login.example"]));
        assert_eq!(shown["scopes_supported"], json!(["use", "admin"]));
    }
    // A host that would need escaping is not repeated.
    let odd = running.send(Request::get("/mcp").header("host", "localhost:1\"x")).await;
    assert!(!odd.header("www-authenticate").unwrap_or_default().contains("metadata"));
}

/// INT-115, C-46: a connection caches its last credential while the token is valid and unchanged.
#[tokio::test]
async fn the_last_credential_of_a_connection_is_cached() {
    let texts = ["ada-0123456789abcdef", "bob-0123456789abcdef"];
    let [ada, bob] = ["ada", "bob"].map(Principal::named);
    let tokens = StaticTokens::default().and(TokenHash::of(texts[0]), ada.clone()).unwrap();
    let tokens = tokens.and(TokenHash::of(texts[1]), bob.clone()).unwrap();
    let who = Tool::builder("who")
        .handler(async |context: Context, _: Value| context.principal().name().to_owned());
    let server = Server::builder("test", "1").tools([who]).build().unwrap();
    let running = start_with(&server, |bound| bound.verifier(Arc::new(tokens))).await;
    let mut connection = Connection::open(running.address).await;
    let steps = [
        (texts[0], 200, "ada"),
        (texts[0], 200, "ada"),
        (texts[1], 200, "bob"),
        ("ada-0123456789abcdeg", 401, ""),
        (texts[1], 200, "bob"),
        (texts[0], 200, "ada"),
    ];
    for (token, status, name) in steps {
        let request =
            with(stateless_post("tools/call", json!({"name": "who", "arguments": {}})), token);
        connection.write(&request.bytes()).await;
        let mut answer = connection.response().await;
        assert_eq!(answer.status, status, "{token}");
        let shown = answer.json().await;
        let said = shown["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert_eq!(said, name, "{shown}");
        connection = answer.into_connection();
    }
    ada.revoke();
    let request =
        with(stateless_post("tools/call", json!({"name": "who", "arguments": {}})), texts[0]);
    connection.write(&request.bytes()).await;
    assert_eq!(connection.response().await.status, 401, "it was taken back");
}

/// Metadata uses the public URL.
#[tokio::test]
async fn metadata_uses_the_public_url() {
    let options = Options { public_url: Some("https://a.example/x/".into()), ..Options::default() };
    let running = open(TestVerifier::new(), options).await;
    let answer = running.send(Request::get("/mcp")).await;
    let shown = answer.header("www-authenticate").unwrap();
    let url = "\"https://a.example/.well-known/oauth-protected-resource/x/mcp\"";
    assert!(shown.ends_with(url), "{shown}");
    let path = "/.well-known/oauth-protected-resource/x/mcp";
    let shown = running.send(Request::get(path)).await.json().await;
    assert_eq!(shown["resource"], "https://a.example/x/mcp");
}

/// INT-115, C-46: event streams and WebSockets end when their token expires or is revoked.
#[tokio::test]
async fn streams_end_with_their_token() {
    let verifier = TestVerifier::new();
    let running = open(verifier.clone(), Options::default()).await;
    let upgrade = |token| {
        let request = Request::new("GET", "/ws")
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
        with(request, token)
    };
    for token in ["brief", "ada"] {
        let mut events = running.send(with(Request::get("/sse"), token)).await;
        assert_eq!(events.event().await.unwrap().name.as_deref(), Some("endpoint"));
        let upgraded = running.send(upgrade(token)).await;
        assert_eq!(upgraded.status, 101);
        let mut socket = upgraded.into_connection();
        if token == "ada" {
            verifier.ada.revoke();
        }
        while events.event().await.is_some() {}
        // The first byte of a close frame with the code for a policy violation.
        assert_eq!(socket.byte().await, Some(0x88));
        socket.byte().await.unwrap();
        let code = [socket.byte().await.unwrap(), socket.byte().await.unwrap()];
        assert_eq!(u16::from_be_bytes(code), 1008);
    }
}

/// C-53: a session belongs to its principal, who may continue it with a new token and then has the
/// rights of that token.
#[tokio::test]
async fn a_session_outlives_its_token() {
    let verifier = TestVerifier::new();
    let rule = |scope: &str, tools| AccessRule {
        scopes: vec![scope.into()],
        tools: Names::new([tools]),
        ..AccessRule::default()
    };
    let rules = Permissions::new(vec![rule("use", "who"), rule("more", "math.*")]);
    let server = Fixture::with(|server| server.permissions(rules)).server;
    let running = start_with(&server, |bound| bound.verifier(verifier.clone())).await;
    let opened = running.send(with(initialize("2025-11-25"), "ada")).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    verifier.ada.revoke();
    let who = in_session(&id, call(1, "who", json!({})));
    let ended = running.send(with(who.clone(), "ada")).await.json().await;
    assert_eq!(ended["error"]["data"]["name"], "ACCESS_DENIED", "{ended}");
    let known = running.send(with(who, "ada-later")).await.json().await;
    assert_eq!(known["result"]["structuredContent"]["principal"], "corp:ada", "{known}");
    let add = in_session(&id, call(2, "math.add", json!({"a": 1, "b": 1})));
    let added = running.send(with(add, "ada-later")).await.json().await;
    assert_eq!(added["result"]["content"][0]["text"], "2", "{added}");
    let ended =
        running.send(with(stateless_post("tools/list", json!({})), "ada")).await.json().await;
    assert_eq!(ended["error"]["data"]["name"], "ACCESS_DENIED", "{ended}");
}

/// C-46: a running download ends with its token.
#[tokio::test]
async fn a_download_ends_with_its_token() {
    let verifier = TestVerifier::new();
    let endless = Tool::builder("endless")
        .handler(async |_: Context, _: Value| Bulk::reader("endless", tokio::io::repeat(b'x')));
    let server = Server::builder("bulky", "1.0.0").tools(endless).build().unwrap();
    let running = start_with(&server, |bound| bound.verifier(verifier.clone())).await;
    let asked = stateless_post("tools/call", json!({"name": "endless", "arguments": {}}));
    let reply = running.send(with(asked, "ada")).await.json().await;
    let url = reply["result"]["content"][0]["uri"].as_str().unwrap().to_owned();
    let path = &url[url.find("/download/").unwrap()..];
    let answer = running.send(with(Request::new("GET", path), "ada")).await;
    assert_eq!(answer.status, 200);
    verifier.ada.revoke();
    let mut connection = answer.into_connection();
    let ended = async { while connection.byte().await.is_some() {} };
    within("the download to end", ended).await;
}

/// MCP-075, MCP-091: with permissions configured, metrics need a permission.
#[tokio::test]
async fn metrics_need_a_permission() {
    let rules = Permissions::new(vec![
        AccessRule { scopes: vec!["use".into()], tools: Names::all(), ..AccessRule::default() },
        AccessRule { scopes: vec!["more".into()], metrics: true, ..AccessRule::default() },
    ]);
    let server = Fixture::with(|server| server.permissions(rules)).server;
    let running = start_with(&server, |bound| bound.verifier(TestVerifier::new())).await;
    for (token, status) in [("ada", 404), ("ada-later", 200)] {
        assert_eq!(running.send(with(Request::get("/metrics"), token)).await.status, status);
    }
}
