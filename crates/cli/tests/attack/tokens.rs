//! Forged, foreign and expired bearer tokens (INT-115 to INT-117, MCP-072, C-46).

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_flow::webtransport::client;
use mcp_flow_testkit::http::Request;
use mcp_flow_testkit::process::Program;
use mcp_flow_testkit::signer::{Signer, unsigned};
use serde_json::{Value, json};

use crate::attack::connection::{initialize, with_stateless_headers, with_token};
use crate::attack::raw_http::upgrade;
use crate::attack::report::TableReport;
use crate::attack::target::{ADA, AUDIENCE, ISSUER, PROGRAM, Target};
use crate::attack::webtransport::{settings, url};

/// INT-115, INT-117, MCP-072, C-46: every endpoint and transport that requires authentication
/// accepts valid tokens only.
#[tokio::test]
async fn invalid_tokens_are_rejected_on_every_transport() {
    let target = Target::with_tokens("", &[]).await;
    let signer = target.issuer.as_ref().unwrap();
    let mut report = TableReport::default();
    let good = signer.sign(&claims());
    for (door, request, let_in) in protected_endpoints() {
        let answer = with_token(Some(&good), request.clone()).send(target.address).await;
        report.compare(format!("a good token, {door}"), answer.status, let_in);
        report.compare(
            format!("no token, {door}"),
            request.clone().send(target.address).await.status,
            401,
        );
        for (name, token, status) in forged(signer) {
            let answer = with_token(Some(&token), request.clone()).send(target.address).await;
            report.compare(format!("{name}, {door}"), answer.status, status);
            let challenge = answer.header("www-authenticate").unwrap_or_default();
            report.check(format!("{name}, {door}"), challenge.starts_with("Bearer "), challenge);
        }
        for (name, header) in headers(&good) {
            let request = request.clone().header("authorization", &header);
            let status = request.send(target.address).await.status;
            report.compare(format!("{name}, {door}"), status, 401);
        }
        let twice = with_token(Some(&good), request).bytes();
        let twice = String::from_utf8(twice).unwrap().replacen(
            "\r\n",
            &format!("\r\nAuthorization: Bearer {ADA}\r\n"),
            1,
        );
        let first = crate::attack::raw_http::first_status(&target, twice.as_bytes()).await;
        report.compare(format!("two tokens, {door}"), first, Some(401));
    }
    for (name, token, status) in forged(signer) {
        // A token is sent as a header value; invalid ones cannot be sent.
        if token.is_empty() || token.contains(['\n', '\0']) {
            continue;
        }
        let refused = client::connect(url(&target), settings(&target, Some(&token))).await;
        let refused = refused.err().map(|refused| refused.to_string());
        let is_refused = refused.as_ref().is_some_and(|it| it.contains(&status.to_string()));
        report.check(format!("{name}, WebTransport"), is_refused, format_args!("{refused:?}"));
    }
    let refused = client::connect(url(&target), settings(&target, None)).await;
    report.check("no token, WebTransport", refused.is_err(), "it was accepted");
    report.finish(400);
    target.assert_recovered(64).await;
}

/// A token bound to a key is accepted on every transport with a new proof of that key only.
#[tokio::test]
async fn bound_tokens_need_a_proof_on_every_transport() {
    let target = Target::with_tokens("", &[]).await;
    let (signer, client) = (target.issuer.as_ref().unwrap(), Signer::p256("client"));
    let mut report = TableReport::default();
    let mut bound = claims();
    bound["cnf"] = json!({"jkt": client.thumbprint()});
    let token = signer.sign(&bound);
    let base = format!("http://localhost:{}", target.address.port());
    let proof = |method: &str, url: &str, ahead: f64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let (header, mut claims) = client.proof(method, url, &token, now);
        claims["iat"] = json!(now.as_secs_f64() + ahead);
        client.sign_with(&header, &claims)
    };
    for (door, request, let_in) in protected_endpoints() {
        let head = String::from_utf8(request.bytes()).unwrap();
        let mut words = head.split([' ', '?']);
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let url = format!("{base}{path}");
        let host = &base["http://".len()..];
        let send = async |authorization: String, proof: &str| {
            let request = request.clone().header("host", host);
            let request = request.header("authorization", &authorization).header("dpop", proof);
            request.send(target.address).await.status
        };
        let good = proof(method, &url, 0.0);
        let dpop = || format!("DPoP {token}");
        for (name, authorization, proof, status) in [
            ("a good proof", dpop(), good.clone(), let_in),
            ("replayed", dpop(), good.clone(), 401),
            ("another method", dpop(), proof("PATCH", &url, 0.0), 401),
            ("another URL", dpop(), proof(method, &format!("{base}/else"), 0.0), 401),
            ("from the future", dpop(), proof(method, &url, 3600.0), 401),
            ("from the past", dpop(), proof(method, &url, -3600.0), 401),
            ("no proof", dpop(), String::new(), 401),
            ("as a bearer token", format!("Bearer {token}"), proof(method, &url, 0.0), 401),
        ] {
            let received = send(authorization, &proof).await;
            report.compare(format!("{name}, {door}"), received, status);
        }
    }
    let connect = async |scheme: &str, proof: &str| {
        let mut settings = settings(&target, None);
        let value = format!("{scheme} {token}").parse().unwrap();
        settings.headers.insert("authorization", value);
        settings.headers.insert("dpop", proof.parse().unwrap());
        client::connect(url(&target), settings).await.is_ok()
    };
    let good = proof("CONNECT", url(&target), 0.0);
    for (name, scheme, proof, is_accepted) in [
        ("a good proof", "DPoP", good.clone(), true),
        ("replayed", "DPoP", good, false),
        ("another method", "DPoP", proof("GET", url(&target), 0.0), false),
        ("another URL", "DPoP", proof("CONNECT", &format!("{base}/mcp"), 0.0), false),
        ("as a bearer token", "Bearer", proof("CONNECT", url(&target), 0.0), false),
    ] {
        let accepted = connect(scheme, &proof).await;
        report.compare(format!("{name}, WebTransport"), accepted, is_accepted);
    }
    // A pipe carries no proofs, so that a bound token is rejected there.
    let config = target.root().join("../flow.toml").canonicalize().unwrap();
    let script = format!(
        "MCP_FLOW_TOKEN='{token}' exec {PROGRAM} stdio --store memory: --config {}",
        config.display()
    );
    let (_program, mut peer) = Program::start("/bin/sh", &["-c", &script]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    let reply = peer.try_call("initialize", params).await.unwrap_or_default();
    report.compare("stdio", reply["error"]["data"]["name"].as_str(), Some("ACCESS_DENIED"));
    report.finish(70);
    target.assert_recovered(64).await;
}

/// MCP-072: over stdio an invalid token is rejected at initialize, and nothing is served.
#[tokio::test]
async fn invalid_tokens_are_rejected_over_stdio() {
    let target = Target::with_tokens("", &[]).await;
    let mut report = TableReport::default();
    let config = target.root().join("../flow.toml");
    let config = config.canonicalize().unwrap().display().to_string();
    let signer = target.issuer.as_ref().unwrap();
    for (name, token, _) in forged(signer) {
        if token.contains('\0') || token.is_empty() {
            continue;
        }
        let script = format!("exec {PROGRAM} stdio --store memory: --config {config}");
        let script = format!("MCP_FLOW_TOKEN='{}' {script}", token.replace('\'', ""));
        let (_program, mut peer) = Program::start("/bin/sh", &["-c", &script]);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        let reply = peer.try_call("initialize", params).await.unwrap_or_default();
        report.compare(name, reply["error"]["data"]["name"].as_str(), Some("ACCESS_DENIED"));
    }
    report.finish(30);
    target.assert_recovered(64).await;
}

/// The endpoints that require a token: a request, and its status with a valid token.
fn protected_endpoints() -> Vec<(&'static str, Request, u16)> {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let list =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let list = list.to_string();
    vec![
        ("initialize", initialize(), 200),
        ("stateless", with_stateless_headers(Request::post("/mcp", &list), list.as_bytes()), 200),
        ("listen", Request::get("/mcp").header("mcp-session-id", "x"), 404),
        ("delete", Request::new("DELETE", "/mcp").header("mcp-session-id", "x"), 404),
        ("sse", Request::get("/sse"), 200),
        ("messages", Request::post("/messages?sessionId=x", "{}"), 404),
        ("websocket", upgrade(), 101),
        ("metrics", Request::new("GET", "/metrics"), 200),
        ("download", Request::new("GET", "/download/x"), 404),
    ]
}

/// Authorization headers with a valid token in an invalid form.
fn headers(good: &str) -> Vec<(&'static str, String)> {
    vec![
        ("the token alone", good.to_owned()),
        ("another scheme", format!("Basic {good}")),
        ("no space", format!("Bearer{good}")),
        ("a colon", format!("Bearer:{good}")),
        ("two words", format!("Bearer Bearer {good}")),
        ("quotes", format!("Bearer \"{good}\"")),
        ("a list", format!("Bearer {good}, Bearer {good}")),
        ("a scheme alone", "Bearer".to_owned()),
        ("nothing", String::new()),
    ]
}

pub(crate) fn claims() -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "scope": "flow", "exp": now() + 600})
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Invalid tokens, and the status of their rejection.
fn forged(signer: &Signer) -> Vec<(&'static str, String, u16)> {
    let stranger = Signer::ed25519("one");
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        signer.sign(&claims)
    };
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        signer.sign(&claims)
    };
    let head = |header: Value| signer.sign_with(&header, &claims());
    let good = signer.sign(&claims());
    let parts: Vec<_> = good.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("a token has three parts") };
    let root = format!("{payload}x");
    vec![
        ("alg none", unsigned(&json!({"alg": "none"}), &claims()), 401),
        ("alg None", unsigned(&json!({"alg": "None", "kid": "one"}), &claims()), 401),
        ("alg nOnE", unsigned(&json!({"alg": "nOnE", "kid": "one"}), &claims()), 401),
        ("alg empty", unsigned(&json!({"alg": "", "kid": "one"}), &claims()), 401),
        ("alg missing", unsigned(&json!({"kid": "one"}), &claims()), 401),
        ("alg null", unsigned(&json!({"alg": null, "kid": "one"}), &claims()), 401),
        ("alg array", unsigned(&json!({"alg": ["EdDSA"], "kid": "one"}), &claims()), 401),
        ("HS256 by the public key", signer.sign_as_hmac(&claims()), 401),
        ("another family", head(json!({"alg": "ES256", "kid": "one"})), 401),
        ("not on the list", head(json!({"alg": "RS512", "kid": "one"})), 401),
        ("another's key", stranger.sign(&claims()), 401),
        (
            "its own key",
            stranger.sign_with(&json!({"alg": "EdDSA", "jwk": stranger.jwk()}), &claims()),
            401,
        ),
        (
            "its own key by name",
            stranger.sign_with(
                &json!({"alg": "EdDSA", "kid": "one", "jwk": stranger.jwk()}),
                &claims(),
            ),
            401,
        ),
        (
            "a key elsewhere",
            stranger.sign_with(
                &json!({"alg": "EdDSA", "kid": "one", "jku": "http://127.0.0.1:1/keys"}),
                &claims(),
            ),
            401,
        ),
        (
            "a certificate elsewhere",
            stranger.sign_with(
                &json!({"alg": "EdDSA", "kid": "one", "x5u": "http://127.0.0.1:1/c"}),
                &claims(),
            ),
            401,
        ),
        ("kid of a file", head(json!({"alg": "EdDSA", "kid": "../../dev/null"})), 401),
        ("kid of a query", head(json!({"alg": "EdDSA", "kid": "' OR 1=1 --"})), 401),
        ("kid of a command", head(json!({"alg": "EdDSA", "kid": "$(id)"})), 401),
        ("kid that is no text", head(json!({"alg": "EdDSA", "kid": {"a": 1}})), 401),
        ("kid that is long", head(json!({"alg": "EdDSA", "kid": "x".repeat(4000)})), 401),
        ("critical", head(json!({"alg": "EdDSA", "kid": "one", "crit": ["x"], "x": 1})), 401),
        (
            "not encoded",
            head(json!({"alg": "EdDSA", "kid": "one", "b64": false, "crit": ["b64"]})),
            401,
        ),
        ("a logout token", head(json!({"alg": "EdDSA", "kid": "one", "typ": "logout+jwt"})), 401),
        ("no signature", format!("{header}.{payload}."), 401),
        ("two parts", format!("{header}.{payload}"), 401),
        ("four parts", format!("{good}.x"), 401),
        ("another payload", format!("{header}.{root}.{signature}"), 401),
        ("a signature cut off", good[..good.len() - 4].to_owned(), 401),
        ("nonsense", "not.a.token".to_owned(), 401),
        ("dots", "..".to_owned(), 401),
        ("expired", with("exp", json!(now() - 3600)), 401),
        ("expired long ago", with("exp", json!(0)), 401),
        ("ends before time", with("exp", json!(-1)), 401),
        ("ends never", with("exp", json!("never")), 401),
        ("has no end", without("exp"), 401),
        ("not yet good", with("nbf", json!(now() + 3600)), 401),
        ("another issuer", with("iss", json!("https://evil.example")), 401),
        ("an issuer with a slash", with("iss", json!(format!("{ISSUER}/"))), 401),
        ("two issuers", with("iss", json!([ISSUER])), 401),
        ("no issuer", without("iss"), 401),
        ("another audience", with("aud", json!("https://other.example")), 401),
        ("no audience", without("aud"), 401),
        ("an empty audience", with("aud", json!([])), 401),
        ("part of the audience", with("aud", json!("https://flow.example")), 401),
        ("an empty subject", with("sub", json!("")), 401),
        ("no subject", without("sub"), 401),
        ("a subject of two lines", with("sub", json!("a\nb")), 401),
        ("too few scopes", with("scope", json!("")), 403),
        ("other scopes", with("scope", json!("flows flow2")), 403),
        ("another's static token", format!("{ADA}x"), 401),
        ("half a static token", ADA[..10].to_owned(), 401),
        ("a static token in capitals", ADA.to_uppercase(), 401),
    ]
}
