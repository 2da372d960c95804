//! Headers that mirror the body of a request, for proxies that route by them (2026-07-28).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use mcp_flow_client::transport::OutgoingKind;

/// Adds the headers that mirror a request.
pub(crate) fn add(headers: &mut HeaderMap, kind: &OutgoingKind) {
    let OutgoingKind::Request { method, name, headers: arguments, .. } = kind else { return };
    headers.insert(METHOD, encode(method));
    if let Some(name) = name {
        headers.insert(NAME, encode(name));
    }
    for (name, value) in arguments {
        if let Ok(name) = HeaderName::try_from(format!("mcp-param-{name}")) {
            headers.insert(name, encode(value));
        }
    }
}

/// Encodes a text as a header value: plain where possible, otherwise base64.
fn encode(text: &str) -> HeaderValue {
    let is_safe = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let is_padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    let encoded = match is_safe && !is_padded && !looks_encoded {
        true => HeaderValue::from_str(text),
        false => HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(text))),
    };
    // Both forms are visible ASCII, which is always a valid header value.
    encoded.unwrap_or_else(|_| HeaderValue::from_static(""))
}

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

#[cfg(test)]
mod tests {
    use super::encode;

    /// The examples of the specification.
    #[test]
    fn values_are_encoded_where_necessary() {
        for (text, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("", ""),
        ] {
            assert_eq!(encode(text), header, "{text:?}");
        }
    }
}
