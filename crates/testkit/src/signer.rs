//! Signed tokens, valid and forged, for tests of authentication.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// Signing key with its id.
#[derive(Debug)]
pub struct Signer {
    name: String,
    key: Key,
}

#[derive(Debug)]
enum Key {
    Ed(Ed25519KeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    /// Creates an Ed25519 key.
    pub fn ed25519(name: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let key = Key::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap());
        Self { name: name.to_owned(), key }
    }

    /// Creates a P-256 key.
    pub fn p256(name: &str) -> Self {
        let (way, chance) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(way, &chance).unwrap();
        let key = Key::P256(EcdsaKeyPair::from_pkcs8(way, key.as_ref(), &chance).unwrap());
        Self { name: name.to_owned(), key }
    }

    /// Signs a token with these claims.
    pub fn sign(&self, claims: &Value) -> String {
        let algorithm = match self.key {
            Key::Ed(_) => "EdDSA",
            Key::P256(_) => "ES256",
        };
        self.sign_with(&json!({"alg": algorithm, "kid": self.name, "typ": "at+jwt"}), claims)
    }

    /// Signs a token with a custom header.
    pub fn sign_with(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match &self.key {
            Key::Ed(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
            Key::P256(key) => {
                key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec()
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Forges a token: HMAC with the public key as its secret.
    pub fn sign_as_hmac(&self, claims: &Value) -> String {
        let message = message(&json!({"alg": "HS256", "kid": self.name}), claims);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, self.public());
        let signature = ring::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Returns the public key as a JWK.
    pub fn jwk(&self) -> Value {
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

    /// Returns the thumbprint of the key (RFC 7638).
    pub fn thumbprint(&self) -> String {
        let jwk = self.jwk();
        let member = |name: &str| jwk[name].as_str().unwrap_or_default().to_owned();
        let (crv, kty, x) = (member("crv"), member("kty"), member("x"));
        let canonical = match self.key {
            Key::Ed(_) => format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}"}}"#),
            Key::P256(_) => {
                let y = member("y");
                format!(r#"{{"crv":"{crv}","kty":"{kty}","x":"{x}","y":"{y}"}}"#)
            }
        };
        URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()))
    }

    /// Returns header and claims of a DPoP proof (RFC 9449) for a request at this time since 1970, to
    /// be signed by [`sign_with`](Self::sign_with).
    pub fn proof(&self, method: &str, url: &str, token: &str, time: Duration) -> (Value, Value) {
        let algorithm = match self.key {
            Key::Ed(_) => "EdDSA",
            Key::P256(_) => "ES256",
        };
        let header = json!({"typ": "dpop+jwt", "alg": algorithm, "jwk": self.jwk()});
        let mut unique = [0; 16];
        SystemRandom::new().fill(&mut unique).unwrap();
        let claims = json!({
            "htm": method, "htu": url, "iat": time.as_secs_f64(), "jti": URL_SAFE_NO_PAD.encode(unique),
            "ath": URL_SAFE_NO_PAD.encode(digest(&SHA256, token.as_bytes())),
        });
        (header, claims)
    }

    fn public(&self) -> &[u8] {
        match &self.key {
            Key::Ed(key) => key.public_key().as_ref(),
            Key::P256(key) => key.public_key().as_ref(),
        }
    }
}

/// Forges a token with `alg: none`.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.", message(header, claims))
}

fn message(header: &Value, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// Returns a JWK set of public keys.
pub fn keys(signers: &[&Signer]) -> String {
    let keys: Vec<_> = signers.iter().map(|signer| signer.jwk()).collect();
    json!({"keys": keys}).to_string()
}
