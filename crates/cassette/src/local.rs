//! Requests that name this machine.

use hyper::header::{self, HeaderMap};

/// Returns whether a request names this machine, so that web pages of others cannot send it.
pub(crate) fn is_local_request(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    text(header::HOST).is_none_or(is_local_host)
        && (!headers.contains_key(header::ORIGIN)
            || origin.is_some_and(|(_, rest)| is_local_host(rest)))
}

/// Returns whether a host, with or without a port, is this machine.
pub(crate) fn is_local_host(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}
