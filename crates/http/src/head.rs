//! Head checks against request smuggling.
//!
//! A proxy in front may parse an ambiguous head differently: where the body ends, which host it is
//! for, which session it belongs to. Ambiguous requests are rejected and their connection is closed,
//! because the bytes that follow may be a smuggled request.

use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use hyper::{StatusCode, Uri};
use mcp_flow_proto::RpcError;

use crate::response::{HttpResponse, rejection};

/// Rejects a request whose head repeats a single-valued header or is otherwise ambiguous.
pub(crate) fn check_head(headers: &HeaderMap, uri: &Uri) -> Result<(), HttpResponse> {
    let Some(problem) = find_ambiguity(headers, uri) else { return Ok(()) };
    let mut response = rejection(StatusCode::BAD_REQUEST, &RpcError::invalid_request(&problem));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Err(response)
}

fn find_ambiguity(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    // The fast path: hardly any request repeats a header.
    if headers.len() != headers.keys_len() {
        let is_duplicated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
        if let Some(name) = SINGLE.iter().find(is_duplicated) {
            return Some(format!("the header {name} may be there once"));
        }
    }
    // Of several codings hyper decodes only the last one.
    let coding = headers.get(TRANSFER_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Some("the only Transfer-Encoding understood is chunked, once".to_owned());
    }
    let (host, authority) = (headers.get(HOST)?, uri.authority()?);
    let is_same = host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    (!is_same).then(|| "the address and the header Host name different hosts".to_owned())
}

/// Headers with a single value. `Authorization` is checked by `authentication`.
static SINGLE: [HeaderName; 9] = [
    HOST,
    ORIGIN,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("last-event-id"),
];

#[cfg(test)]
mod tests {
    use super::check_head;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    /// INT-106: an ambiguous head is rejected, and its connection is closed.
    #[test]
    fn ambiguous_heads_are_rejected() {
        for (uri, headers, passes) in [
            ("/mcp", &[("host", "a")][..], true),
            ("/mcp", &[("transfer-encoding", "Chunked")], true),
            ("/mcp", &[("accept", "a/b"), ("accept", "c/d")], true),
            ("http://A:1/mcp", &[("host", "a:1")], true),
            ("/mcp", &[("transfer-encoding", "chunked, chunked")], false),
            ("/mcp", &[("transfer-encoding", "gzip, chunked")], false),
            ("/mcp", &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], false),
            ("/mcp", &[("host", "a"), ("host", "a")], false),
            ("/mcp", &[("origin", "http://a"), ("origin", "http://b")], false),
            ("/mcp", &[("mcp-session-id", "a"), ("mcp-session-id", "b")], false),
            ("http://evil.example/mcp", &[("host", "localhost")], false),
        ] {
            let pairs = headers.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            let mut map = HeaderMap::new();
            pairs.for_each(|(name, value)| _ = map.append(name, value));
            let rejected = check_head(&map, &uri.parse().unwrap()).err();
            assert_eq!(rejected.is_none(), passes, "{uri} {headers:?}");
            if let Some(rejected) = rejected {
                assert_eq!(rejected.status(), 400);
                assert_eq!(rejected.headers()["connection"], "close");
            }
        }
    }
}
