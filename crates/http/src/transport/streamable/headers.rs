//! Request headers of Streamable HTTP, and checks of the media types.

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName};
use mcp_flow_proto::{Revision, RpcError};

use crate::response::{HttpResponse, rejection};

/// Session id of a request.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Protocol revision of a request.
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Id of the last event that a client has read.
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the revision that the version header names, or the name if it is unknown.
pub(super) fn version(headers: &HeaderMap) -> Option<Result<Revision, String>> {
    let name = headers.get(VERSION)?.to_str().unwrap_or("?");
    Some(Revision::from_name(name).ok_or_else(|| name.to_owned()))
}

/// Returns a header as text, if present and ASCII.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Checks that a POST has a JSON body and accepts both JSON and event streams.
pub(super) fn check_media(headers: &HeaderMap) -> Result<(), HttpResponse> {
    let kind = text(headers, CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let error = RpcError::invalid_request("send Content-Type: application/json");
        return Err(rejection(StatusCode::UNSUPPORTED_MEDIA_TYPE, &error));
    }
    // The fast path: nearly all clients send exactly this.
    if headers.get(ACCEPT).is_some_and(|value| value == "application/json, text/event-stream") {
        return Ok(());
    }
    if !accepts(headers, "application/json") || !accepts(headers, "text/event-stream") {
        let error = "send Accept: application/json, text/event-stream";
        return Err(rejection(StatusCode::NOT_ACCEPTABLE, &RpcError::invalid_request(error)));
    }
    Ok(())
}

/// Checks that a GET accepts an event stream.
pub(super) fn check_accepts_events(headers: &HeaderMap) -> Result<(), HttpResponse> {
    if accepts(headers, "text/event-stream") {
        return Ok(());
    }
    let error = RpcError::invalid_request("send Accept: text/event-stream");
    Err(rejection(StatusCode::NOT_ACCEPTABLE, &error))
}

/// Returns whether the client accepts a media type. Without the header, it accepts any.
fn accepts(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let family = wanted.split('/').next().unwrap_or_default();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let refused = parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let matches = range == "*/*"
            || range.eq_ignore_ascii_case(wanted)
            || range.strip_suffix("/*").is_some_and(|range| range.eq_ignore_ascii_case(family));
        matches && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::check_media;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    #[test]
    fn media_types_are_checked() {
        let both = "application/json, text/event-stream";
        check("application/json", Some(both), None);
        check("Application/JSON; charset=utf-8", Some("*/*"), None);
        check("application/json", None, None);
        check("application/json", Some("text/event-stream;q=0.5, application/*"), None);
        check("text/plain", Some(both), Some(415));
        check("", Some(both), Some(415));
        check("application/json", Some("application/json"), Some(406));
        check("application/json", Some("text/event-stream"), Some(406));
        check("application/json", Some("text/event-stream;q=0, application/json"), Some(406));
        check("application/json", Some("text/html"), Some(406));
    }

    fn check(kind: &str, accept: Option<&str>, refused: Option<u16>) {
        let mut headers = HeaderMap::new();
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        headers.insert(HeaderName::from_static("content-type"), value(kind));
        if let Some(accept) = accept {
            headers.insert(HeaderName::from_static("accept"), value(accept));
        }
        let status = check_media(&headers).err().map(|response| response.status().as_u16());
        assert_eq!(status, refused, "{kind} {accept:?}");
    }
}
