//! Requests and responses that all HTTP transports have in common.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::{Method, Request, StatusCode};
use mcp_flow_client::sanitize;
use mcp_flow_client::transport::{ContentStream, Inbox, SpoolError, SpoolWriter, TransportError};
use serde_json::Value;
use url::{Origin, Url};

use crate::pool::Pool;

/// Builds a POST of one message.
pub(crate) fn post(url: &Url, frame: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = request(Method::POST, url, Full::new(frame.into()));
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    request
}

/// Builds a GET of an event stream.
pub(crate) fn get_events(url: &Url) -> Request<Full<Bytes>> {
    let mut request = request(Method::GET, url, Full::default());
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    request
}

pub(crate) fn request(method: Method, url: &Url, body: Full<Bytes>) -> Request<Full<Bytes>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    // Every serialized URL is a valid URI.
    *request.uri_mut() = url.as_str().parse().unwrap_or_default();
    request
}

/// Returns the media type of a response, without parameters, in lower case.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Reads a whole body, up to a limit.
pub(crate) async fn read_body(body: Incoming, limit: usize) -> Result<Bytes, TransportError> {
    match http_body_util::Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_long(limit)),
        Err(error) => Err(TransportError::Lost(format!("the response was cut off: {error}"))),
    }
}

/// Reads a whole message, whose large content is spooled if it is longer than allowed.
pub(crate) async fn read_message(
    mut body: Incoming,
    inbox: &Inbox,
) -> Result<Bytes, TransportError> {
    let limit = inbox.frame_limit();
    let mut message = BytesMut::new();
    let mut spool: Option<SpoolWriter> = None;
    while let Some(chunk) = read_chunk(&mut body).await? {
        match &mut spool {
            Some(spool) => spool.write(&chunk).map_err(|error| not_spooled(&error))?,
            None if message.len() + chunk.len() <= limit => message.extend_from_slice(&chunk),
            None => {
                let mut begun = inbox.spool().ok_or_else(|| too_long(limit))?;
                for part in [&message[..], &chunk[..]] {
                    begun.write(part).map_err(|error| not_spooled(&error))?;
                }
                message = BytesMut::new();
                spool = Some(begun);
            }
        }
    }
    match spool {
        Some(spool) => spool.finish().map(Bytes::from).map_err(|error| not_spooled(&error)),
        None => Ok(message.freeze()),
    }
}

/// Builds the error for a message whose large content cannot be spooled.
pub(crate) fn not_spooled(error: &SpoolError) -> TransportError {
    TransportError::InvalidMessage(format!("the server sent a long message: {error}"))
}

/// Reads the next chunk of a body, or `None` at its end.
pub(crate) async fn read_chunk(body: &mut Incoming) -> Result<Option<Bytes>, TransportError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers are ignored.
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => {
                return Err(TransportError::Lost(format!("the response was cut off: {error}")));
            }
        }
    }
}

/// Builds the error for a message that exceeds the limit.
pub(crate) fn too_long(limit: usize) -> TransportError {
    TransportError::InvalidMessage(format!("the server sent a message of more than {limit} bytes"))
}

/// Converts an error response without a message to an error.
pub(crate) fn rejection(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> TransportError {
    let details = sanitize::shorten(&String::from_utf8_lossy(&body[..body.len().min(800)]), 400);
    let details = details.trim();
    let what = match details {
        "" => format!("the server answered {status}"),
        details => format!("the server answered {status}: {details}"),
    };
    if status == StatusCode::FORBIDDEN && details.contains("SIGNATURE_REFUSED") {
        return TransportError::InvalidSignature(what);
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let what = format!("{what}; authenticate, for example with a bearer token");
        return TransportError::Unauthorized { what, challenge: challenge.map(str::to_owned) };
    }
    if status.is_redirection() {
        let location = headers.get("location").and_then(|value| value.to_str().ok());
        let location = sanitize::shorten(location.unwrap_or("another URL"), 200);
        let what = format!("the server redirects to {location}; use that URL if you trust it");
        return TransportError::Refused { what, status: status.as_u16(), retry_after: None };
    }
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = seconds.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
    TransportError::Refused { what, status: status.as_u16(), retry_after }
}

/// The URL of content that is at the server's own origin; links to others are not followed.
pub(crate) fn own_link(origin: &Origin, content: &Value) -> Option<Url> {
    let url = Url::parse(content.get("uri")?.as_str()?).ok()?;
    (url.origin() == *origin).then_some(url)
}

/// Opens a download link of the server.
pub(crate) async fn open_link(pool: &Pool, url: Url) -> Result<ContentStream, TransportError> {
    let response = pool.send(request(Method::GET, &url, Full::default())).await?;
    if response.status() != StatusCode::OK {
        let (head, body) = response.into_parts();
        let body = read_body(body, MAX_ERROR_BODY).await.unwrap_or_default();
        return Err(rejection(head.status, &head.headers, &body));
    }
    let media_type = media_type(response.headers());
    let size = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let size =
        size.and_then(|text| text.parse().ok()).or_else(|| response.body().size_hint().exact());
    let mime_type = (!media_type.is_empty()).then_some(media_type);
    Ok(ContentStream { size, mime_type, bytes: chunks(response.into_body()) })
}

/// Returns the chunks of a body.
pub(crate) fn chunks(body: Incoming) -> BoxStream<'static, Result<Bytes, TransportError>> {
    Box::pin(stream::try_unfold(body, |mut body| async move {
        Ok(read_chunk(&mut body).await?.map(|chunk| (chunk, body)))
    }))
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Limit on the body of an error response.
pub(crate) const MAX_ERROR_BODY: usize = 64 * 1024;
