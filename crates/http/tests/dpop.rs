//! Tokens bound to a key (DPoP) over HTTP: challenges, nonces and metadata.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Running, initialize, start_with};
use mcp_flow_http::Options;
use mcp_flow_identity::{
    Algorithm, DpopSettings, IssuerSettings, KeySource, TokenVerifier, VerifierSettings,
};
use mcp_flow_testkit::http::{Connection, Request};
use mcp_flow_testkit::signer::{Signer, keys};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::json;

const BASE: &str = "https://flow.example/tools";

/// The current time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A server behind a proxy, its issuer, and the key of a client.
struct Setting {
    running: Running,
    issuer: Signer,
    client: Signer,
}

impl Setting {
    async fn new(dpop: DpopSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (issuer, client) = (Signer::ed25519("one"), Signer::p256("client"));
        let file = folder.path().join("keys.json");
        std::fs::write(&file, keys(&[&issuer])).unwrap();
        let issuers = vec![IssuerSettings {
            name: "corp".into(),
            issuer: "https://login.example".into(),
            audience: vec![format!("{BASE}/mcp")],
            keys: KeySource::File(file),
            algorithms: vec![Algorithm::EdDSA],
            principal_claim: "sub".into(),
            scope_claim: "scope".into(),
            required_scopes: Vec::new(),
            leeway: Duration::from_secs(30),
            refresh: Duration::from_secs(300),
        }];
        let settings = VerifierSettings { issuers, dpop, ..VerifierSettings::default() };
        let verifier = Arc::new(TokenVerifier::new(settings).unwrap());
        let options = Options { public_url: Some(BASE.into()), ..Options::default() };
        let set_up = |bound: mcp_flow_http::Bound| bound.options(options).verifier(verifier);
        let running = start_with(&Fixture::new().server, set_up).await;
        Self { running, issuer, client }
    }

    fn token(&self, is_bound: bool) -> String {
        let mut claims = json!({
            "iss": "https://login.example", "aud": format!("{BASE}/mcp"), "sub": "ada",
            "exp": now().as_secs() + 60,
        });
        if is_bound {
            claims["cnf"] = json!({"jkt": self.client.thumbprint()});
        }
        self.issuer.sign(&claims)
    }

    fn proof(&self, method: &str, path: &str, token: &str, nonce: Option<&str>) -> String {
        let url = format!("{BASE}{path}");
        let (header, mut claims) = self.client.proof(method, &url, token, now());
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        self.client.sign_with(&header, &claims)
    }
}

fn with(request: Request, authorization: &str, proof: &str) -> Request {
    request.header("authorization", authorization).header("dpop", proof)
}

/// The challenge says what is wrong with a proof. Each request of a connection needs a new one, for
/// the URL that clients know.
#[tokio::test]
async fn challenges_name_the_error_of_a_proof() {
    let setting = Setting::new(DpopSettings::default()).await;
    let (token, plain) = (setting.token(true), setting.token(false));
    let proof = |method: &str, path: &str| setting.proof(method, path, &token, None);
    let good = proof("POST", "/mcp");
    let metadata = "resource_metadata=\"https://flow.example/.well-known/oauth-protected-resource\
                    /tools/mcp\"";
    let mut connection = Connection::open(setting.running.address).await;
    for (scheme, token, proof, status, challenge) in [
        ("DPoP", &token, good.clone(), 200, ""),
        ("DPoP", &token, proof("POST", "/mcp"), 200, ""),
        ("DPoP", &token, good, 401, "DPoP error=\"invalid_dpop_proof\""),
        ("DPoP", &token, proof("GET", "/mcp"), 401, "DPoP error=\"invalid_dpop_proof\""),
        ("DPoP", &token, proof("POST", "/ws"), 401, "DPoP error=\"invalid_dpop_proof\""),
        ("DPoP", &token, String::new(), 401, "DPoP error=\"invalid_dpop_proof\""),
        ("Bearer", &token, proof("POST", "/mcp"), 401, "DPoP error=\"invalid_token\""),
        ("DPoP", &plain, proof("POST", "/mcp"), 401, "DPoP error=\"invalid_token\""),
        ("DPoP", &token, proof("POST", "/mcp"), 200, ""),
        ("Bearer", &plain, String::new(), 200, ""),
    ] {
        let request = with(initialize("2025-11-25"), &format!("{scheme} {token}"), &proof);
        connection.write(&request.bytes()).await;
        let mut answer = connection.response().await;
        assert_eq!(answer.status, status, "{scheme} {proof}");
        let shown = answer.header("www-authenticate").unwrap_or_default().to_owned();
        assert!(shown.starts_with(challenge), "{shown}");
        if status == 401 {
            assert!(shown.contains("algs=\"ES256") && shown.ends_with(metadata), "{shown}");
        }
        let said = answer.text().await;
        assert_eq!(said.contains("ACCESS_DENIED"), status == 401, "{said}");
        connection = answer.into_connection();
    }
    let twice = format!("{}\r\ndpop: {}", proof("POST", "/mcp"), proof("POST", "/mcp"));
    let twice = with(initialize("2025-11-25"), &format!("DPoP {token}"), &twice);
    assert_eq!(setting.running.send(twice).await.status, 401);
    // Without a token, both ways are offered.
    let answer = setting.running.send(Request::get("/mcp")).await;
    let all = answer.headers_of("www-authenticate");
    assert!(all[0].starts_with("Bearer ") && all[1].starts_with("DPoP algs="), "{all:?}");
    let path = "/.well-known/oauth-protected-resource/tools/mcp";
    let shown = setting.running.send(Request::get(path)).await.json().await;
    assert_eq!(shown["dpop_bound_access_tokens_required"], false);
    assert_eq!(shown["dpop_signing_alg_values_supported"][0], "ES256");
}

/// Required nonces are named by the first response. A WebSocket is opened with a proof for
/// its handshake.
#[tokio::test]
async fn nonces_are_named_and_websockets_need_a_proof() {
    let dpop = DpopSettings { requires_nonce: true, is_required: true, ..DpopSettings::default() };
    let setting = Setting::new(dpop).await;
    let token = setting.token(true);
    let authorization = format!("DPoP {token}");
    let send = async |method: &str, path: &str, nonce: Option<&str>| {
        let request = match method {
            "POST" => initialize("2025-11-25"),
            _ => Request::get("/ws")
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        };
        let proof = setting.proof(method, path, &token, nonce);
        setting.running.send(with(request, &authorization, &proof)).await
    };
    let answer = send("POST", "/mcp", None).await;
    assert_eq!(answer.status, 401);
    let challenge = answer.header("www-authenticate").unwrap();
    assert!(challenge.starts_with("DPoP error=\"use_dpop_nonce\""), "{challenge}");
    let nonce = answer.header("dpop-nonce").unwrap().to_owned();
    assert_eq!(send("POST", "/mcp", Some(&nonce)).await.status, 200);
    assert_eq!(send("GET", "/ws", Some(&nonce)).await.status, 101);
    assert_eq!(send("GET", "/mcp", Some(&nonce)).await.status, 401);
    assert_eq!(send("GET", "/ws", None).await.status, 401);
    let plain = format!("Bearer {}", setting.token(false));
    let plain = setting.running.send(with(initialize("2025-11-25"), &plain, "")).await;
    assert_eq!(plain.status, 401);
    let all = plain.headers_of("www-authenticate");
    assert!(all.len() == 1 && all[0].starts_with("DPoP error=\"invalid_token\""), "{all:?}");
    assert!(plain.header("dpop-nonce").is_some());
    let path = "/.well-known/oauth-protected-resource/tools/mcp";
    let shown = setting.running.send(Request::get(path)).await.json().await;
    assert_eq!(shown["dpop_bound_access_tokens_required"], true);
}
