//! Signatures of tokens, checked by the library that also does TLS here.
//!
//! The library for tokens leaves signatures to whoever provides them; this way the program has one
//! implementation of them and not two. Nothing is ever signed, and secrets that both sides know are
//! no keys (see [`verifier`]).

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
    VerificationAlgorithm,
};
use signature::Verifier;

/// Has tokens checked by it, unless the program has chosen another provider before.
pub(crate) fn install() {
    let _ = PROVIDER.install_default();
}

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// What checks signatures of an algorithm by a key, if the two belong together.
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let (family, way) = match algorithm {
        Algorithm::RS256 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA256))
        }
        Algorithm::RS384 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA384))
        }
        Algorithm::RS512 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PKCS1_2048_8192_SHA512))
        }
        Algorithm::PS256 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA256))
        }
        Algorithm::PS384 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA384))
        }
        Algorithm::PS512 => {
            (AlgorithmFamily::Rsa, Way::Rsa(&ring_signature::RSA_PSS_2048_8192_SHA512))
        }
        Algorithm::ES256 => {
            (AlgorithmFamily::Ec, Way::Plain(&ring_signature::ECDSA_P256_SHA256_FIXED))
        }
        Algorithm::ES384 => {
            (AlgorithmFamily::Ec, Way::Plain(&ring_signature::ECDSA_P384_SHA384_FIXED))
        }
        Algorithm::EdDSA => (AlgorithmFamily::Ed, Way::Plain(&ring_signature::ED25519)),
        // Secrets that both sides know, and what is not known here.
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    };
    if key.family() != family {
        return Err(ErrorKind::InvalidKeyFormat.into());
    }
    Ok(Box::new(Checker { algorithm: *algorithm, way, key: key.kind().clone() }))
}

struct Checker {
    algorithm: Algorithm,
    way: Way,
    key: DecodingKeyKind,
}

#[derive(Clone, Copy)]
enum Way {
    Rsa(&'static RsaParameters),
    Plain(&'static dyn VerificationAlgorithm),
}

impl Verifier<Vec<u8>> for Checker {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let checked = match (self.way, &self.key) {
            (Way::Rsa(way), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(way, message, signature)
            }
            (Way::Plain(way), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(way, key).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Checker {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
