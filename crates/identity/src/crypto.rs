//! Crypto provider of jsonwebtoken, based on ring.
//!
//! TLS uses ring too, so the program has one implementation of signatures. Only verification is
//! provided, and only for asymmetric algorithms (see [`verifier`]).

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use signature::Verifier;

/// Installs the provider, unless the program has installed another one before.
pub(crate) fn install() {
    let _ = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Returns the verifier of an algorithm and key, if the two match.
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let (family, scheme) = match algorithm {
        Algorithm::RS256 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256))
        }
        Algorithm::RS384 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384))
        }
        Algorithm::RS512 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512))
        }
        Algorithm::PS256 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA256))
        }
        Algorithm::PS384 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA384))
        }
        Algorithm::PS512 => {
            (AlgorithmFamily::Rsa, Scheme::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA512))
        }
        Algorithm::ES256 => {
            (AlgorithmFamily::Ec, Scheme::Plain(&ring_signature::ECDSA_P256_SHA256_FIXED))
        }
        Algorithm::ES384 => {
            (AlgorithmFamily::Ec, Scheme::Plain(&ring_signature::ECDSA_P384_SHA384_FIXED))
        }
        Algorithm::EdDSA => (AlgorithmFamily::Ed, Scheme::Plain(&ring_signature::ED25519)),
        // Symmetric or unknown.
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    if key.family() != family {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(SignatureVerifier { algorithm: *algorithm, scheme, key: key.kind().clone() }))
}

struct SignatureVerifier {
    algorithm: Algorithm,
    scheme: Scheme,
    key: DecodingKeyKind,
}

#[derive(Clone, Copy)]
enum Scheme {
    Rsa(&'static RsaParameters),
    Plain(&'static dyn VerificationAlgorithm),
}

impl Verifier<Vec<u8>> for SignatureVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (self.scheme, &self.key) {
            (Scheme::Rsa(scheme), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(scheme, message, signature)
            }
            (Scheme::Plain(scheme), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(scheme, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for SignatureVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
