//! Whether a request can be read in one way only.
//!
//! A proxy in front may read the same head and let it pass for what the server does not take it for:
//! where a body ends, whom it is for, which session it belongs to. What leaves a choice is refused,
//! and the connection with it, because what follows on it may be part of the trick.

use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING,
};
use hyper::{StatusCode, Uri};
use mcp_flow_proto::RpcError;

use crate::answer::{Answer, refusal};

/// Refuses a request whose head says a thing twice, or in a way that others read differently.
pub(crate) fn check(headers: &HeaderMap, address: &Uri) -> Result<(), Answer> {
    let Some(problem) = problem(headers, address) else { return Ok(()) };
    let mut answer = refusal(StatusCode::BAD_REQUEST, &RpcError::invalid_request(&problem));
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Err(answer)
}

fn problem(headers: &HeaderMap, address: &Uri) -> Option<String> {
    // Hardly any request has a header twice, and that is quick to see.
    if headers.len() != headers.keys_len() {
        let is_doubled = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
        if let Some(name) = SINGLE.iter().find(is_doubled) {
            return Some(format!("the header {name} may be there once"));
        }
    }
    // Of several codings hyper looks at the last one, and undoes that once.
    let coding = headers.get(TRANSFER_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Some("the only Transfer-Encoding understood is chunked, once".to_owned());
    }
    let (host, authority) = (headers.get(HOST)?, address.authority()?);
    let is_same = host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    (!is_same).then(|| "the address and the header Host name different hosts".to_owned())
}

/// What has one value. `Authorization` is looked at where it is used.
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
    use super::check;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    /// INT-106: what two could read in two ways is refused, and the connection with it.
    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for (address, headers, passes) in [
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
            let refused = check(&map, &address.parse().unwrap()).err();
            assert_eq!(refused.is_none(), passes, "{address} {headers:?}");
            if let Some(refused) = refused {
                assert_eq!(refused.status(), 400);
                assert_eq!(refused.headers()["connection"], "close");
            }
        }
    }
}
