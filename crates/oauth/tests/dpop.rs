//! Tokens bound to a key of the client (DPoP).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_oauth::{DpopPolicy, LoginSettings, TokenStore};
use serde_json::{Value, json};

use crate::support::test_server::{Received, Reply, TestServer};
use crate::support::{account, list, settings};

/// Behaviour of the servers.
#[derive(Clone, Copy)]
struct Setting {
    /// Algorithms that the authorization server names.
    algorithms: Option<&'static [&'static str]>,
    /// Challenge of the MCP server.
    scheme: &'static str,
    /// Type of the tokens that are issued.
    token_type: &'static str,
    /// Both servers require nonces.
    nonce: bool,
}

const BOTH: Setting =
    Setting { algorithms: Some(&["ES256"]), scheme: "DPoP", token_type: "DPoP", nonce: false };

/// Reads the claims of a proof.
fn claims(request: &Received) -> Option<Value> {
    let part = request.proof.as_ref()?.split('.').nth(1)?.to_owned();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

/// Reads the key of a proof.
fn key(request: &Received) -> Option<Value> {
    let part = request.proof.as_ref()?.split('.').next()?.to_owned();
    let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()?;
    Some(header["jwk"].clone())
}

fn start(setting: Setting) -> Arc<TestServer> {
    TestServer::with_rule(move |server, request| {
        let nonce = claims(request).map(|claims| claims["nonce"].clone()).unwrap_or_default();
        match request.path() {
            "/.well-known/oauth-authorization-server/as" => {
                let mut metadata = server.metadata();
                if let Some(algorithms) = setting.algorithms {
                    metadata["dpop_signing_alg_values_supported"] = json!(algorithms);
                }
                Some(Reply::json(200, &metadata))
            }
            "/token" if setting.nonce && nonce != "of-as" => {
                let error = json!({"error": "use_dpop_nonce"});
                Some(Reply::json(400, &error).with("DPoP-Nonce", "of-as"))
            }
            "/token" => {
                let Reply::Response { status, headers, body } = server.reply(request) else {
                    return None;
                };
                let kind = format!("\"token_type\":\"{}\"", setting.token_type);
                let body = body.replace("\"token_type\":\"Bearer\"", &kind);
                Some(Reply::Response { status, headers, body })
            }
            "/mcp" => {
                let credential = request.authorization.clone().unwrap_or_default();
                let token = credential.split_once(' ').unwrap_or_default().1.to_owned();
                if !server.state().valid_tokens.contains(&token) {
                    let challenge = format!(
                        "{} resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"",
                        setting.scheme,
                        server.base()
                    );
                    let reply = Reply::json(401, &json!({}));
                    return Some(reply.with("WWW-Authenticate", &challenge));
                }
                if setting.nonce && nonce != "of-rs" {
                    let reply = Reply::json(401, &json!({})).with("DPoP-Nonce", "of-rs");
                    return Some(reply.with("WWW-Authenticate", "DPoP error=\"use_dpop_nonce\""));
                }
                let request =
                    Received { authorization: Some(format!("Bearer {token}")), ..request.clone() };
                Some(server.reply(&request))
            }
            _ => None,
        }
    })
}

/// A token is bound if both servers support it, and each request carries a new proof for it. The key
/// is kept with the token, for its use and for refreshing it.
#[tokio::test]
async fn tokens_are_bound_to_one_key() {
    for nonce in [false, true] {
        let server = start(Setting { nonce, ..BOTH });
        let tokens = TokenStore::memory();
        let mine = account(&server.url(), &tokens, settings());
        assert_eq!(list(&server.url(), mine).await.unwrap(), 1);
        // The next process refreshes the token.
        server.state().valid_tokens.clear();
        let next = account(&server.url(), &tokens, LoginSettings::default());
        assert_eq!(list(&server.url(), next).await.unwrap(), 1);
        let requests = server.requests();
        let proven: Vec<_> = requests.iter().filter(|request| request.proof.is_some()).collect();
        assert!(proven.iter().any(|request| request.field("refresh_token").is_some()));
        let mut ids = Vec::new();
        for request in &proven {
            let claims = claims(request).unwrap();
            assert_eq!(claims["htm"], *request.method);
            assert_eq!(claims["htu"], format!("{}{}", server.base(), request.path()));
            assert_eq!(key(request), key(proven[0]), "all proofs are of one key");
            assert_eq!(claims.get("ath").is_some(), request.path() == "/mcp");
            assert!(!ids.contains(&claims["jti"]), "a proof was used twice");
            ids.push(claims["jti"].clone());
        }
        for request in requests.iter().filter(|request| request.path() == "/mcp") {
            let credential = request.authorization.as_deref().unwrap_or("DPoP ");
            assert!(credential.starts_with("DPoP "), "{credential}");
        }
    }
}

/// Tokens are bound, or not, by what the servers support and the user wants.
#[tokio::test]
async fn tokens_are_bound_where_it_is_supported_or_required() {
    let bearer = Setting { scheme: "Bearer", token_type: "Bearer", ..BOTH };
    for (setting, policy, expected) in [
        (BOTH, DpopPolicy::Auto, Ok("DPoP")),
        (BOTH, DpopPolicy::Required, Ok("DPoP")),
        (bearer, DpopPolicy::Auto, Ok("Bearer")),
        (bearer, DpopPolicy::Off, Ok("Bearer")),
        (Setting { scheme: "Bearer, DPoP", ..BOTH }, DpopPolicy::Auto, Ok("DPoP")),
        (Setting { algorithms: None, ..bearer }, DpopPolicy::Auto, Ok("Bearer")),
        // The server accepts nothing else, and the authorization server does not say.
        (Setting { algorithms: None, ..BOTH }, DpopPolicy::Auto, Ok("DPoP")),
        (bearer, DpopPolicy::Required, Err("not bound")),
        (Setting { algorithms: Some(&["RS256"]), ..BOTH }, DpopPolicy::Auto, Err("ES256")),
        (Setting { token_type: "DPoP", ..bearer }, DpopPolicy::Off, Err("neither")),
        (Setting { token_type: "mac", ..BOTH }, DpopPolicy::Auto, Err("neither")),
    ] {
        let server = start(setting);
        let mut settings = settings();
        settings.dpop = policy;
        let mine = account(&server.url(), &TokenStore::memory(), settings);
        let outcome = list(&server.url(), mine).await.map_err(|error| error.to_string());
        match expected {
            Ok(scheme) => {
                assert_eq!(outcome, Ok(1), "{policy:?}");
                let last = server.requests().pop().unwrap();
                let credential = last.authorization.unwrap_or_default();
                assert!(credential.starts_with(scheme), "{credential} {policy:?}");
                assert_eq!(last.proof.is_some(), scheme == "DPoP");
            }
            Err(part) => {
                let shown = outcome.unwrap_err();
                assert!(shown.contains(part) && !shown.contains("t0ken"), "{shown}");
            }
        }
    }
}
