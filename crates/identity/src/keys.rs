//! Key sets of issuers (JWKS).

use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use serde_json::Value;

/// Usable keys of a key set.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    all: Vec<Arc<Key>>,
}

pub(crate) struct Key {
    id: Option<String>,
    /// Algorithms that its type and its `alg` member allow.
    algorithms: Vec<Algorithm>,
    pub(crate) decoding: DecodingKey,
    /// The key as published, to recognise it in a later set.
    published: Value,
}

/// A key set that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key set cannot be read or fetched.
    #[error("cannot get the keys of {issuer} from {location}: {problem}")]
    Unavailable {
        /// Name of the issuer.
        issuer: String,
        /// Path or URL of the key set.
        location: String,
        /// Reason.
        problem: String,
    },
    /// The set has no usable key.
    #[error("{0} has no key for the allowed algorithms")]
    None(String),
}

impl Keys {
    /// Parses a key set. Keys that are symmetric, for encryption, or for algorithms that are not
    /// allowed are left out.
    pub(crate) fn read(text: &[u8], allowed: &[Algorithm]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("it has no array `keys`")?;
        let all = keys.iter().filter_map(|published| Key::read(published, allowed)).map(Arc::new);
        Ok(Self { all: all.collect() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the key that a token names, or without a `kid` the only key that fits.
    pub(crate) fn find(&self, header: &Header) -> Option<&Arc<Key>> {
        let mut fitting = self.all.iter().filter(|key| {
            let is_named = header.kid.is_none() || key.id == header.kid;
            is_named && key.algorithms.contains(&header.alg)
        });
        let first = fitting.next()?;
        (header.kid.is_some() || fitting.next().is_none()).then_some(first)
    }

    /// Returns whether the set contains a key.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.all.iter().any(|known| known.published == key.published)
    }
}

impl Key {
    fn read(published: &Value, allowed: &[Algorithm]) -> Option<Self> {
        let key: Jwk = serde_json::from_value(published.clone()).ok()?;
        let is_for_signing =
            matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let declared = key.common.key_algorithm.map(|algorithm| algorithm.to_string());
        let fits = |algorithm: &Algorithm| {
            declared.as_ref().is_none_or(|declared| *declared == format!("{algorithm:?}"))
        };
        let of_type: &[Algorithm] = match &key.algorithm {
            AlgorithmParameters::RSA(_) => &RSA,
            AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => &[],
            },
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            // Whoever verifies tokens with a shared secret could also forge them.
            _ => &[],
        };
        let fitting = of_type.iter().filter(|one| allowed.contains(one)).filter(|one| fits(one));
        let algorithms: Vec<_> = fitting.copied().collect();
        if !is_for_signing || algorithms.is_empty() {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&key).ok()?;
        Some(Self { id: key.common.key_id, algorithms, decoding, published: published.clone() })
    }
}

const RSA: [Algorithm; 6] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
