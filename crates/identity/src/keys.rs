//! The keys of an issuer (JWKS).

use std::sync::Arc;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header};
use serde_json::Value;

/// Keys that signatures can be checked by.
#[derive(Clone, Default)]
pub(crate) struct Keys {
    all: Vec<Arc<Key>>,
}

pub(crate) struct Key {
    id: Option<String>,
    /// What it can be used for, by its kind and by what is said of it.
    algorithms: Vec<Algorithm>,
    pub(crate) decoding: DecodingKey,
    /// The key as it was given, by which it is known again.
    given: Value,
}

/// Why keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// They cannot be had.
    #[error("the keys of {issuer} cannot be had from {place}: {problem}")]
    Unreachable {
        /// Whose.
        issuer: String,
        /// Where from.
        place: String,
        /// Why.
        problem: String,
    },
    /// None of them is of use.
    #[error("{0} has no key that the allowed algorithms could use")]
    None(String),
}

impl Keys {
    /// Reads a set of keys, leaving out those that are of no use: what is symmetric, is meant for
    /// encryption, or belongs to algorithms that are not allowed.
    pub(crate) fn read(text: &[u8], allowed: &[Algorithm]) -> Result<Self, String> {
        let set: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or("there is no list `keys` in it")?;
        let all = keys.iter().filter_map(|given| Key::read(given, allowed)).map(Arc::new);
        Ok(Self { all: all.collect() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The key a token says it is signed with; without a name, the only one it can be.
    pub(crate) fn find(&self, header: &Header) -> Option<&Arc<Key>> {
        let mut fitting = self.all.iter().filter(|key| {
            let is_named = header.kid.is_none() || key.id == header.kid;
            is_named && key.algorithms.contains(&header.alg)
        });
        let first = fitting.next()?;
        (header.kid.is_some() || fitting.next().is_none()).then_some(first)
    }

    /// Whether a key is still among them.
    pub(crate) fn have(&self, key: &Key) -> bool {
        self.all.iter().any(|known| known.given == key.given)
    }
}

impl Key {
    fn read(given: &Value, allowed: &[Algorithm]) -> Option<Self> {
        let key: Jwk = serde_json::from_value(given.clone()).ok()?;
        let is_for_signing =
            matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let said = key.common.key_algorithm.map(|algorithm| algorithm.to_string());
        let fits = |algorithm: &Algorithm| {
            said.as_ref().is_none_or(|said| *said == format!("{algorithm:?}"))
        };
        let of_kind: &[Algorithm] = match &key.algorithm {
            AlgorithmParameters::RSA(_) => &RSA,
            AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
                EllipticCurve::P256 => &[Algorithm::ES256],
                EllipticCurve::P384 => &[Algorithm::ES384],
                _ => &[],
            },
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                &[Algorithm::EdDSA]
            }
            // Who checks tokens by a shared secret could also make them.
            _ => &[],
        };
        let fitting = of_kind.iter().filter(|one| allowed.contains(one)).filter(|one| fits(one));
        let algorithms: Vec<_> = fitting.copied().collect();
        if !is_for_signing || algorithms.is_empty() {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&key).ok()?;
        Some(Self { id: key.common.key_id, algorithms, decoding, given: given.clone() })
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
