//! Client authentication by a signature, `private_key_jwt` (RFC 7523).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::error::OAuthError;

/// Signs a client assertion for an authorization server.
pub(crate) fn sign(client: &str, audience: &str, key: &str) -> Result<String, OAuthError> {
    let key = Key::read(key)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let header = json!({"alg": key.algorithm(), "typ": "JWT"});
    let claims = json!({
        "iss": client, "sub": client, "aud": audience,
        "iat": now, "exp": now + LIFETIME, "jti": random_id()?,
    });
    encode(&header, &claims, |message| key.sign(message))
}

/// Encodes a signed JWT.
pub(crate) fn encode(
    header: &Value,
    claims: &Value,
    sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, OAuthError>,
) -> Result<String, OAuthError> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = sign(signed.as_bytes())?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Creates an id of 128 random bits.
pub(crate) fn random_id() -> Result<String, OAuthError> {
    let mut unique = [0; 16];
    getrandom::fill(&mut unique).map_err(|error| OAuthError::Key(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(unique))
}

enum Key {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Key {
    fn read(pem: &str) -> Result<Self, OAuthError> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| OAuthError::Key("it contains no private key".to_owned()))?;
        let der = der.secret_pkcs8_der();
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random);
        let p384 = || EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, der, &random);
        let key = p256.map(Self::P256).or_else(|_| p384().map(Self::P384));
        key.or_else(|_| RsaKeyPair::from_pkcs8(der).map(Self::Rsa))
            .map_err(|error| OAuthError::Key(error.to_string()))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::P384(_) => "ES384",
            Self::Rsa(_) => "RS256",
        }
    }

    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, OAuthError> {
        let random = SystemRandom::new();
        let failed = |_| OAuthError::Key("signing failed".to_owned());
        match self {
            Self::P256(key) | Self::P384(key) => {
                key.sign(&random, text).map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            Self::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, text, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

/// Validity of an assertion, in seconds.
const LIFETIME: u64 = 300;

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, UnparsedPublicKey, VerificationAlgorithm,
    };
    use serde_json::Value;

    use super::sign;

    /// MCP-089: an assertion verifies with the public key, and names its audience.
    #[test]
    fn assertions_verify_with_the_public_key() {
        let algorithms: [(_, _, &'static dyn VerificationAlgorithm); 2] = [
            ("ES256", &PKCS_ECDSA_P256_SHA256, &ECDSA_P256_SHA256_FIXED),
            ("ES384", &PKCS_ECDSA_P384_SHA384, &ECDSA_P384_SHA384_FIXED),
        ];
        for (name, made, checked) in algorithms {
            let key = KeyPair::generate_for(made).unwrap();
            let text = sign("me", "https://as.example", &key.serialize_pem()).unwrap();
            let (signed, signature) = text.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            let public = UnparsedPublicKey::new(checked, key.public_key_raw());
            public.verify(signed.as_bytes(), &signature).unwrap();
            let parts: Vec<Value> = signed
                .split('.')
                .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
                .collect();
            assert_eq!(parts[0]["alg"], name);
            assert_eq!(
                (&parts[1]["sub"], &parts[1]["aud"]),
                (&"me".into(), &"https://as.example".into())
            );
        }
    }

    #[test]
    fn invalid_keys_are_rejected_without_being_shown() {
        for bad in
            ["", "s3cret", "-----BEGIN PRIVATE KEY-----\nczNjcmV0\n-----END PRIVATE KEY-----"]
        {
            let shown = sign("me", "https://as.example", bad).unwrap_err().to_string();
            assert!(shown.contains("PKCS #8") && !shown.contains("s3cret"), "{shown}");
        }
    }
}
