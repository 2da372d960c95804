//! Access control: path, origin, host, token, certificate and TLS version (WT-009, WT-067, WT-068).

use std::time::Duration;

use crate::support::{options, start, start_with};
use mcp_flow_server::Server;
use mcp_flow_testkit_fixture::Fixture;
use mcp_flow_tls::Tls;
use mcp_flow_webtransport::client::{self, ConnectError, ConnectSettings, Trust};
use mcp_flow_webtransport::{Options, bind};
use rcgen::{CertificateParams, Issuer, KeyPair};
use serde_json::json;
use web_transport_quinn::ClientBuilder;

/// WT-009, WT-068: wrong paths and foreign origins are rejected with different statuses.
#[tokio::test]
async fn wrong_paths_and_origins_are_rejected() {
    let listed = options(|options| options.origins = vec!["https://app.example".into()]);
    let running = start_with(&Fixture::new().server, listed);
    let own = format!("https://127.0.0.1:{}", running.port);
    for (path, origin, status) in [
        ("/mcp-flow", None, None),
        ("/mcp-flow", Some("https://app.example"), None),
        ("/mcp-flow", Some(&*own), None),
        ("/mcp-flow", Some("https://evil.example"), Some("403")),
        ("/mcp-flow", Some("null"), Some("403")),
        ("/", None, Some("404")),
        ("/mcp", None, Some("404")),
        ("/mcp-flow/", None, Some("404")),
    ] {
        let settings = ConnectSettings { origin: origin.map(str::to_owned), ..running.settings() };
        let url = format!("{own}{path}");
        let connected = client::connect(&url, settings).await;
        let refused = connected.err().map(|error| error.to_string());
        match (&refused, status) {
            (None, None) => {}
            (Some(text), Some(status)) if text.contains(status) => {}
            _ => panic!("{path} {origin:?}: {refused:?}"),
        }
    }
}

/// Both loopback addresses are served, so that `localhost` works whichever it resolves to.
#[tokio::test]
async fn both_loopback_addresses_are_served() {
    let running = start(&Fixture::new().server);
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let url = format!("https://{host}:{}/mcp-flow", running.port);
        let (client, mut events) = client::connect(&url, running.settings()).await.unwrap();
        client.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.unwrap();
        assert!(crate::support::within(events.next()).await.is_some(), "{host}");
    }
}

/// C-46: if tokens are required, only clients with a valid one connect, and calls run as their
/// principal.
#[tokio::test]
async fn only_valid_tokens_are_accepted() {
    let tokens: mcp_flow_identity::StaticTokens = "ada:0123456789abcdef".parse().unwrap();
    let verifier = std::sync::Arc::new(tokens);
    let running = start_with(&Fixture::new().server, |bound| bound.verifier(verifier));
    for token in [None, Some("0123456789abcdee")] {
        let settings = ConnectSettings { token: token.map(str::to_owned), ..running.settings() };
        let refused = client::connect(&running.url, settings).await.unwrap_err().to_string();
        assert!(refused.contains("401"), "{refused}");
    }
    let token = Some("0123456789abcdef".to_owned());
    let mut caller = running.connect_with(ConnectSettings { token, ..running.settings() }).await;
    caller.initialize(&[]).await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    caller.call(2, "initialize", params).await;
    let reply = caller.call_tool(3, "who").await;
    assert_eq!(reply["result"]["structuredContent"]["principal"], "ada");
}

/// C-46, INT-115: a session ends when its token is revoked.
#[tokio::test]
async fn a_revoked_token_ends_the_session() {
    let tokens: mcp_flow_identity::StaticTokens = "ada:0123456789abcdef".parse().unwrap();
    let tokens = std::sync::Arc::new(tokens);
    let verifier = tokens.clone();
    let running = start_with(&Fixture::new().server, |bound| bound.verifier(verifier));
    let token = Some("0123456789abcdef".to_owned());
    let settings = ConnectSettings { token, ..running.settings() };
    let (client, mut events) = client::connect(&running.url, settings).await.unwrap();
    client.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await.unwrap();
    assert!(crate::support::within(events.next()).await.is_some());
    tokens.find("0123456789abcdef").unwrap().revoke();
    while crate::support::within(events.next()).await.is_some() {}
}

/// A server is trusted by its fingerprint or its issuer; an untrusted certificate is rejected.
#[tokio::test]
async fn untrusted_certificates_are_rejected() {
    let running = start(&Fixture::new().server);
    let wrong = ConnectSettings::new(Trust::fingerprint(&"00".repeat(32)).unwrap());
    assert!(matches!(
        client::connect(&running.url, wrong).await.unwrap_err(),
        ConnectError::Server(_)
    ));
    let system = client::connect(&running.url, ConnectSettings::new(Trust::System)).await;
    assert!(system.is_err(), "nobody has issued it");

    let folder = tempfile::tempdir().unwrap();
    let issuer_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let issuer_certificate = params.self_signed(&issuer_key).unwrap();
    let issuer = Issuer::new(params, issuer_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let (chain, key_file) = (folder.path().join("chain.pem"), folder.path().join("key.pem"));
    std::fs::write(&chain, certificate.pem()).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    let tls = Tls::from_pem(&chain, &key_file).unwrap();
    let bound = bind("127.0.0.1:0".parse().unwrap(), tls).unwrap();
    let url = format!("https://localhost:{}/mcp-flow", bound.address().port());
    let server: Server = Fixture::new().server;
    tokio::spawn(async move { bound.serve(&server, std::future::pending()).await });
    let trust = Trust::Authorities(vec![issuer_certificate.der().clone()]);
    client::connect(&url, ConnectSettings::new(trust)).await.unwrap();
}

/// WT-006: a client that opens no control stream is disconnected.
#[tokio::test]
async fn a_client_without_a_control_stream_is_disconnected() {
    let short = |options: &mut Options| options.handshake_timeout = Duration::from_millis(500);
    let running = start_with(&Fixture::new().server, options(short));
    let Trust::Fingerprints(hashes) = running.settings().trust else {
        panic!("it goes by the hash")
    };
    let hashes = hashes.iter().map(|hash| hash.to_vec()).collect();
    let client = ClientBuilder::new().with_server_certificate_hashes(hashes).unwrap();
    let session = client.connect(running.url.parse::<url::Url>().unwrap()).await.unwrap();
    let end = crate::support::within(session.closed()).await.to_string();
    assert!(end.contains("no control stream"), "{end}");
}

/// Connections over the limit are rejected, and accepted again when another one has closed.
#[tokio::test]
async fn connections_over_the_limit_are_rejected() {
    let one = |options: &mut Options| options.max_connections = 2;
    let running = start_with(&Fixture::new().server, options(one));
    let first = running.connect().await;
    let second = running.connect().await;
    assert!(client::connect(&running.url, running.settings()).await.is_err());
    first.client.close();
    drop(first);
    let room = async {
        while client::connect(&running.url, running.settings()).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    crate::support::within(room).await;
    drop(second);
}
