//! What browsers want to be told before they let a page of another origin read an answer. Whether
//! such a page may ask at all is up to `guard`.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, VARY,
};
use hyper::{Method, StatusCode};

use crate::answer::{Answer, empty};

/// Whether a browser only asks what a page may do. It does so without the page's token.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a page may do, in answer to [`is_preflight`].
pub(crate) fn preflight(headers: &HeaderMap) -> Answer {
    let mut answer = empty(StatusCode::NO_CONTENT);
    let told = answer.headers_mut();
    told.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    told.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    let wanted = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let wanted = wanted.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    let allowed: Vec<_> = wanted.map(str::trim).filter(|name| may_be_sent(name)).collect();
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", "))
        && !allowed.is_empty()
    {
        told.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    answer
}

/// Lets a page of this origin read an answer, whatever it says.
pub(crate) fn allow(answer: &mut Answer, origin: HeaderValue) {
    let told = answer.headers_mut();
    told.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    told.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    told.append(VARY, HeaderValue::from_static("Origin"));
}

/// Whether a page may send a header of this name: those that MCP has, and those that mirror the
/// arguments of a tool.
fn may_be_sent(name: &str) -> bool {
    let mirrors = name.split_at_checked(MIRRORED.len());
    SENT.iter().any(|known| name.eq_ignore_ascii_case(known))
        || mirrors.is_some_and(|(start, _)| start.eq_ignore_ascii_case(MIRRORED))
}

const SENT: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "range",
];

const MIRRORED: &str = "mcp-param-";

const EXPOSED: &str = "Mcp-Session-Id, Retry-After, WWW-Authenticate, Accept-Ranges, Content-Range";
