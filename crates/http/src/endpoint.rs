//! Endpoints of the server beside MCP: the request as they see it, and headers that protect pages.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderName, HeaderValue, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, StatusCode};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Principal;
use mcp_flow_server::endpoint::{Endpoint, EndpointRequest, EndpointResponse};

use crate::authentication::{self, Addresses};
use crate::limits::request_body::{discard, read};
use crate::operator::metrics::HttpConnection;
use crate::response::{HttpResponse, method_not_allowed, rejection, text};
use crate::service::Service;

/// Serves a request to an endpoint. `path` is the part behind its prefix.
pub(crate) async fn serve(
    service: &Arc<Service>,
    endpoint: &dyn Endpoint,
    path: &str,
    request: Request<Incoming>,
    connection: &HttpConnection,
) -> HttpResponse {
    let (head, body) = request.into_parts();
    let is_post = match head.method {
        Method::GET | Method::HEAD => false,
        Method::POST => true,
        _ => {
            discard(service, body);
            return protected(method_not_allowed("GET, HEAD, POST"));
        }
    };
    let url_path = head.uri.path();
    let authenticated = authenticate(service, &head.method, url_path, &head.headers, connection);
    let principal = match authenticated.await {
        Ok(principal) => principal,
        Err(mut rejection) => {
            service.server.denied("http", Some(connection.peer), "token");
            discard(service, body);
            add_challenge(&mut rejection);
            return protected(rejection);
        }
    };
    let (body, _held) = if is_post {
        match read(service, body).await {
            Ok((body, _)) if body.len() > MAX_BODY => {
                let error = RpcError::too_large(MAX_BODY);
                return protected(rejection(StatusCode::PAYLOAD_TOO_LARGE, &error));
            }
            Ok((body, held)) => (body, Some(held)),
            Err(rejection) => return protected(rejection),
        }
    } else {
        discard(service, body);
        (Bytes::new(), None)
    };
    let value = |name: HeaderName| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_ascii_lowercase()
    };
    let media_type = value(CONTENT_TYPE);
    let response = endpoint
        .handle(EndpointRequest {
            path,
            is_post,
            accepts_html: value(ACCEPT).contains("text/html"),
            media_type: media_type.split(';').next().unwrap_or_default().trim(),
            body: &body,
            principal: principal.as_ref().map(Principal::name),
        })
        .await;
    if response.status == StatusCode::NOT_FOUND {
        service.server.denied("http", Some(connection.peer), "link");
    }
    respond(response)
}

/// Returns the principal of the credentials, if there are any. A browser sends a token as the
/// password of Basic authentication.
async fn authenticate(
    service: &Service,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    connection: &HttpConnection,
) -> Result<Option<Principal>, HttpResponse> {
    let access = service.access();
    if !headers.contains_key(AUTHORIZATION) && access.requires_token() {
        return Ok(None);
    }
    let bearer = bearer_of(headers);
    let headers = bearer.as_ref().unwrap_or(headers);
    let addresses = Addresses {
        url: &|| Some(format!("{}{path}", service.base_url(headers)?)),
        metadata: &|| None,
    };
    let authenticated =
        authentication::authenticate(access, method, headers, &connection.last_caller, &addresses);
    Ok(Some(authenticated.await?.principal))
}

/// Returns headers with the password of Basic authentication as a bearer token.
fn bearer_of(headers: &HeaderMap) -> Option<HeaderMap> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, login) = given.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let login = String::from_utf8(STANDARD.decode(login.trim()).ok()?).ok()?;
    let (_, token) = login.split_once(':')?;
    let mut bearer = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    bearer.set_sensitive(true);
    let mut headers = headers.clone();
    headers.insert(AUTHORIZATION, bearer);
    Some(headers)
}

fn respond(response: EndpointResponse) -> HttpResponse {
    let EndpointResponse { status, media_type, body, retry_after } = response;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = text(status, body);
    let added = response.headers_mut();
    added.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(retry_after) = retry_after {
        added.insert(RETRY_AFTER, retry_after.as_secs().max(1).into());
    }
    if status == StatusCode::UNAUTHORIZED {
        added.append(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        add_challenge(&mut response);
    }
    protected(response)
}

/// Lets a browser ask for a token.
fn add_challenge(response: &mut HttpResponse) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let challenge =
            HeaderValue::from_static("Basic realm=\"token as password\", charset=\"UTF-8\"");
        response.headers_mut().append(WWW_AUTHENTICATE, challenge);
    }
}

/// Adds the headers of a page whose URL is a secret, and that nobody may embed.
fn protected(mut response: HttpResponse) -> HttpResponse {
    let added = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        // With `no-referrer` browsers would send the form with `Origin: null`.
        (REFERRER_POLICY, "same-origin"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    ] {
        added.insert(name, HeaderValue::from_static(value));
    }
    response
}

const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// Most bytes of a body.
const MAX_BODY: usize = 256 * 1024;
