//! Thumbprints of keys (RFC 7638).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::Value;

/// Computes the SHA-256 thumbprint of a public key. None if it is of an unknown type.
pub(crate) fn compute(key: &Value) -> Option<String> {
    let members: &[&str] = match key.get("kty")?.as_str()? {
        "EC" => &["crv", "kty", "x", "y"],
        "OKP" => &["crv", "kty", "x"],
        "RSA" => &["e", "kty", "n"],
        _ => return None,
    };
    let mut canonical = String::from("{");
    for name in members {
        let value = key.get(name)?.as_str()?;
        // None of these needs escaping.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if value.is_empty() || !value.bytes().all(is_plain) {
            return None;
        }
        if canonical.len() > 1 {
            canonical.push(',');
        }
        canonical += &format!("\"{name}\":\"{value}\"");
    }
    canonical.push('}');
    Some(URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes())))
}

/// Returns whether a text has the form of a SHA-256 thumbprint.
pub(crate) fn is_thumbprint(text: &str) -> bool {
    URL_SAFE_NO_PAD.decode(text).is_ok_and(|hash| hash.len() == 32)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{compute, is_thumbprint};

    /// The examples of RFC 7638, 3.1, and RFC 8037, A.3.
    #[test]
    fn thumbprints_are_those_of_the_rfcs() {
        let rsa = json!({
            "kty": "RSA", "e": "AQAB", "alg": "RS256", "kid": "2011-04-29",
            "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
        });
        let expected = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";
        assert_eq!(compute(&rsa).as_deref(), Some(expected));
        let ed = json!({
            "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        });
        let expected = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";
        assert_eq!(compute(&ed).as_deref(), Some(expected));
        assert!(is_thumbprint(expected) && !is_thumbprint("short"));
        for bad in [
            json!({"kty": "oct", "k": "AAAA"}),
            json!({"kty": "EC", "crv": "P-256", "x": "AA"}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": "\",\"y\":\""}),
            json!({}),
        ] {
            assert_eq!(compute(&bad), None, "{bad}");
        }
    }
}
