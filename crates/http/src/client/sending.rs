//! What all transports over HTTP do with requests and answers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use mcp_flow_client::neutral;
use mcp_flow_client::transport::{Opened, TransportError};
use url::{Origin, Url};

use super::wire::Wire;

/// A POST of one message.
pub(super) fn post(url: &Url, frame: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = request(Method::POST, url, Full::new(frame.into()));
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    request
}

/// A GET of a stream of events.
pub(super) fn get_events(url: &Url) -> Request<Full<Bytes>> {
    let mut request = request(Method::GET, url, Full::default());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    request
}

pub(super) fn request(method: Method, url: &Url, body: Full<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    // What is a URL is a URI: both are ASCII by now, and the second has fewer rules.
    *request.uri_mut() = url.as_str().parse().unwrap_or_default();
    request
}

/// What kind of content an answer has, without its parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// A whole body, if it is not longer than the limit.
pub(super) async fn whole(body: Incoming, limit: usize) -> Result<Bytes, TransportError> {
    match http_body_util::Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_long(limit)),
        Err(error) => Err(TransportError::Lost(format!("the answer broke off: {error}"))),
    }
}

/// The next piece of a body; none at its end.
pub(super) async fn piece(body: &mut Incoming) -> Result<Option<Bytes>, TransportError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers say nothing to us.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                return Err(TransportError::Lost(format!("the answer broke off: {error}")));
            }
        }
    }
}

/// The error of a message that is too long.
pub(super) fn too_long(limit: usize) -> TransportError {
    TransportError::Garbage(format!("the server sent a message of more than {limit} bytes"))
}

/// What an answer says that is no success and no message.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> TransportError {
    let said = neutral::shorten(&String::from_utf8_lossy(&body[..body.len().min(800)]), 400);
    let said = said.trim();
    let what = match (status, said) {
        (status, "") => format!("the server answered {status}"),
        (status, said) => format!("the server answered {status}: {said}"),
    };
    if status == StatusCode::FORBIDDEN && said.contains("SIGNATURE_REFUSED") {
        return TransportError::Untrusted(what);
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let what = format!("{what}; say who is calling, for example by a bearer token");
        return TransportError::Unauthorized { what, challenge: challenge.map(str::to_owned) };
    }
    if status.is_redirection() {
        let place = headers.get("location").and_then(|value| value.to_str().ok());
        let place = neutral::shorten(place.unwrap_or("elsewhere"), 200);
        let what = format!("the server sends us to {place}; use that address if you trust it");
        return TransportError::Refused { what, status: status.as_u16(), retry_after: None };
    }
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    TransportError::Refused { what, status: status.as_u16(), retry_after }
}

/// Opens what a link of the server leads to, if that is the server itself: nothing is fetched from
/// elsewhere on a server's word.
pub(super) async fn open(
    wire: &Wire,
    origin: &Origin,
    link: &str,
) -> Result<Opened, TransportError> {
    let url = Url::parse(link).map_err(|error| TransportError::Garbage(error.to_string()))?;
    if url.origin() != *origin {
        let what = format!("{} is not at the server's own address", neutral::shorten(link, 200));
        return Err(TransportError::Garbage(what));
    }
    let answer = wire.send(request(Method::GET, &url, Full::default())).await?;
    if answer.status() != StatusCode::OK {
        let (head, body) = answer.into_parts();
        let body = whole(body, LONGEST_REFUSAL).await.unwrap_or_default();
        return Err(refusal(head.status, &head.headers, &body));
    }
    let media_type = media_type(answer.headers());
    let size = answer.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let size =
        size.and_then(|text| text.parse().ok()).or_else(|| answer.body().size_hint().exact());
    let mime_type = (!media_type.is_empty()).then_some(media_type);
    Ok(Opened { size, mime_type, bytes: pieces(answer) })
}

fn pieces(answer: Response<Incoming>) -> BoxStream<'static, Result<Bytes, TransportError>> {
    let body = answer.into_body();
    Box::pin(stream::try_unfold(body, |mut body| async move {
        Ok(piece(&mut body).await?.map(|piece| (piece, body)))
    }))
}

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How much of an answer is read that only says no.
pub(super) const LONGEST_REFUSAL: usize = 64 * 1024;
