//! A test issuer, which serves its keys over HTTP.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_flow_http_client::Trust;
use mcp_flow_identity::{Algorithm, IssuerSettings, KeySource};
use mcp_flow_testkit::signer::{Signer, keys};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

pub(crate) fn issuer(keys: KeySource) -> IssuerSettings {
    IssuerSettings {
        name: "corp".into(),
        issuer: "https://login.example".into(),
        audience: vec!["https://flow.example/mcp".into()],
        keys,
        algorithms: vec![Algorithm::ES256, Algorithm::EdDSA],
        principal_claim: "sub".into(),
        scope_claim: "scope".into(),
        required_scopes: Vec::new(),
        leeway: Duration::from_secs(30),
        refresh: Duration::from_secs(300),
    }
}

pub(crate) fn keys_file(folder: &Path, signers: &[&Signer]) -> PathBuf {
    let path = folder.join("keys.json");
    std::fs::write(&path, keys(signers)).unwrap();
    path
}

/// Serves a key set over HTTP, and counts the requests.
pub(crate) struct KeyServer {
    port: u16,
    keys: Arc<Mutex<String>>,
    requests: Arc<AtomicUsize>,
}

impl KeyServer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (served, requests) =
            (Arc::new(Mutex::new(keys(signers))), Arc::new(AtomicUsize::new(0)));
        let (serving, counting) = (served.clone(), requests.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                counting.fetch_add(1, Ordering::SeqCst);
                let body = serving.lock().unwrap().clone();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
                let response = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        Self { port, keys: served, requests }
    }

    pub(crate) fn source(&self) -> KeySource {
        KeySource::Url(format!("http://127.0.0.1:{}/keys", self.port), Trust::System)
    }

    pub(crate) fn serve(&self, signers: &[&Signer]) {
        *self.keys.lock().unwrap() = keys(signers);
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}
