//! Host and Origin checks of a request, and the CORS headers for pages of allowed origins.
//!
//! The rules are those of [`AccessPolicy`]; this module reads the headers and writes the responses.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HOST, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, StatusCode, Uri};
use mcp_flow_server::access::{AccessPolicy, RequestOrigin};

use crate::authentication::denial;
use crate::response::{HttpResponse, empty};

/// Checks the Host and Origin headers against the policy.
///
/// Returns the origin if it is one from the allow list: responses to it need CORS headers.
pub(crate) fn check_origin<'a>(
    access: &AccessPolicy,
    headers: &'a HeaderMap,
    uri: &Uri,
) -> Result<Option<&'a HeaderValue>, HttpResponse> {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = named.or_else(|| uri.authority().map(hyper::http::uri::Authority::as_str));
    let page = headers.get(ORIGIN);
    let origin = page.map(|page| page.to_str().unwrap_or_default());
    match access.check_origin(host, origin) {
        Ok(RequestOrigin::Own) => Ok(None),
        Ok(RequestOrigin::Listed) => Ok(page),
        Err(denied) => Err(denial(denied)),
    }
}

/// Returns whether a request is a CORS preflight. Browsers send it without the page's token.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Builds the response to a CORS preflight: the methods and headers a page may use.
pub(crate) fn preflight(headers: &HeaderMap) -> HttpResponse {
    let mut response = empty(StatusCode::NO_CONTENT);
    let added = response.headers_mut();
    added.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    added.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    let requested = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let requested =
        requested.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    let allowed: Vec<_> = requested.map(str::trim).filter(|name| is_allowed_header(name)).collect();
    if let Ok(allowed) = HeaderValue::from_str(&allowed.join(", "))
        && !allowed.is_empty()
    {
        added.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
    response
}

/// Adds the CORS headers with which pages of this origin can read the response.
pub(crate) fn allow_origin(response: &mut HttpResponse, origin: HeaderValue) {
    let added = response.headers_mut();
    added.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    added.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    added.append(VARY, HeaderValue::from_static("Origin"));
}

/// Returns whether a page may send this header: those of MCP, and those that mirror tool arguments.
fn is_allowed_header(name: &str) -> bool {
    let mirrors = name.split_at_checked(MIRRORED.len());
    ALLOWED.iter().any(|known| name.eq_ignore_ascii_case(known))
        || mirrors.is_some_and(|(start, _)| start.eq_ignore_ascii_case(MIRRORED))
}

const ALLOWED: [&str; 10] = [
    "accept",
    "authorization",
    "dpop",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "range",
];

const MIRRORED: &str = "mcp-param-";

const EXPOSED: &str =
    "Mcp-Session-Id, Retry-After, WWW-Authenticate, DPoP-Nonce, Accept-Ranges, Content-Range";
