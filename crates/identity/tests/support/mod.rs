//! An issuer to be tried: it signs tokens, and serves its keys.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_http::client::Trust;
use mcp_flow_identity::{Algorithm, IssuerSettings, KeySource};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A key and its name.
pub(crate) struct Signer {
    name: String,
    key: Key,
}

enum Key {
    Ed(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    pub(crate) fn ed25519(name: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Key::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap());
        Self { name: name.to_owned(), key }
    }

    pub(crate) fn p256(name: &str) -> Self {
        let (way, chance) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(way, &chance).unwrap();
        let key = Key::P256(EcdsaKeyPair::from_pkcs8(way, key.as_ref(), &chance).unwrap());
        Self { name: name.to_owned(), key }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let algorithm = match self.key {
            Key::Ed(_) => "EdDSA",
            Key::P256(_) => "ES256",
        };
        self.sign_with(&json!({"alg": algorithm, "kid": self.name, "typ": "at+jwt"}), claims)
    }

    pub(crate) fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match &self.key {
            Key::Ed(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
            Key::P256(key) => {
                key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// A token whose secret is the public key, which everyone has.
    pub(crate) fn sign_as_hmac(&self, claims: &Value) -> String {
        let message = message(&json!({"alg": "HS256", "kid": self.name}), claims);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.public());
        let signature = ring::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    pub(crate) fn jwk(&self) -> Value {
        let public = self.public();
        match self.key {
            Key::Ed(_) => json!({
                "kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(public),
                "kid": self.name, "use": "sig",
            }),
            Key::P256(_) => json!({
                "kty": "EC", "crv": "P-256", "kid": self.name, "alg": "ES256",
                "x": URL_SAFE_NO_PAD.encode(&public[1..33]),
                "y": URL_SAFE_NO_PAD.encode(&public[33..]),
            }),
        }
    }

    fn public(&self) -> &[u8] {
        match &self.key {
            Key::Ed(key) => key.public_key().as_ref(),
            Key::P256(key) => key.public_key().as_ref(),
        }
    }
}

/// A token that says it needs no signature.
pub(crate) fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.", message(header, claims))
}

fn message(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

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

fn keys(signers: &[&Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({"keys": keys}).to_string()
}

/// Serves keys over HTTP, and counts how often it is asked.
pub(crate) struct KeyServer {
    port: u16,
    keys: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    pub(crate) async fn start(signers: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (served, asked) = (Arc::new(Mutex::new(keys(signers))), Arc::new(AtomicUsize::new(0)));
        let (serving, counting) = (served.clone(), asked.clone());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                counting.fetch_add(1, Ordering::SeqCst);
                let body = serving.lock().unwrap().clone();
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { port, keys: served, asked }
    }

    pub(crate) fn source(&self) -> KeySource {
        KeySource::Url(format!("http://127.0.0.1:{}/keys", self.port), Trust::System)
    }

    pub(crate) fn serve(&self, signers: &[&Signer]) {
        *self.keys.lock().unwrap() = keys(signers);
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}
