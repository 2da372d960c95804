//! Sends requests over pooled connections, with default headers and credentials.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE,
};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use mcp_flow_client::authorizer::{Authorizer, Credential, CredentialRefusal, MAX_REPETITIONS};
use mcp_flow_client::transport::TransportError;
use tower_service::Service;

use crate::BadTarget;
use crate::dialer::{Dialer, HttpStream, RefusedAddress};
use crate::options::HttpOptions;

/// Connection pool of one client. Retries a request once its credential has been renewed.
#[derive(Debug)]
pub(crate) struct Pool {
    client: Client<Dialer, Full<Bytes>>,
    /// Dialer for connections that are upgraded, which must be HTTP/1.1.
    http1_dialer: Dialer,
    pub(crate) headers: HeaderMap,
    authorizer: Option<Arc<dyn Authorizer>>,
}

impl Pool {
    pub(crate) fn new(options: &HttpOptions) -> Result<Self, BadTarget> {
        let mut headers = options.headers.clone();
        let agent = concat!("mcp-flow/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        let dialer = Dialer::new(options, &["h2", "http/1.1"])?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .build(dialer);
        let authorizer = options.authorizer.clone();
        let http1_dialer = Dialer::new(options, &["http/1.1"])?;
        Ok(Self { client, http1_dialer, headers, authorizer })
    }

    /// Sends a request. Its own headers override the default headers. A request that is rejected for
    /// its credential is repeated with a renewed one.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TransportError> {
        for (name, value) in &self.headers {
            if !request.headers().contains_key(name) {
                request.headers_mut().append(name, value.clone());
            }
        }
        let Some(authorizer) = self.authorizer(request.uri()) else {
            return self.send_once(request).await;
        };
        let mut repetitions = 0;
        loop {
            let credential = authorizer.credential().await?;
            let mut attempt = request.clone();
            let (method, uri) = (request.method().as_str(), request.uri());
            attempt.headers_mut().extend(headers(credential.as_ref(), method, uri)?);
            let response = self.send_once(attempt).await?;
            take_nonce(credential.as_ref(), uri, response.headers());
            if repetitions == MAX_REPETITIONS || !is_auth_failure(response.status()) {
                return Ok(response);
            }
            repetitions += 1;
            let refusal = auth_failure(credential, response.status(), response.headers());
            if !authorizer.refused(refusal).await? {
                return Ok(response);
            }
        }
    }

    async fn send_once(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, TransportError> {
        self.client.request(request).await.map_err(|error| describe(&error))
    }

    /// Returns the source of credentials for a URI, unless the default headers have a credential.
    pub(crate) fn authorizer(&self, uri: &Uri) -> Option<&dyn Authorizer> {
        let authorizer = self.authorizer.as_deref()?;
        let is_needed = !self.headers.contains_key(AUTHORIZATION);
        (is_needed && authorizer.is_for(&uri.to_string())).then_some(authorizer)
    }

    /// Opens a connection outside the pool, to be upgraded.
    pub(crate) async fn dial(&self, uri: Uri) -> Result<TokioIo<HttpStream>, TransportError> {
        let dialled = self.http1_dialer.clone().call(uri).await;
        let stream =
            dialled.map_err(|error| TransportError::unreachable("no connection", error))?;
        Ok(TokioIo::new(stream))
    }
}

/// Returns whether a status is an authentication or authorization failure.
pub(crate) fn is_auth_failure(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Describes an authentication failure to the authorizer.
pub(crate) fn auth_failure(
    credential: Option<Credential>,
    status: StatusCode,
    headers: &HeaderMap,
) -> CredentialRefusal {
    let challenges = headers.get_all(WWW_AUTHENTICATE).iter();
    let challenges = challenges.filter_map(|value| value.to_str().ok().map(str::to_owned));
    CredentialRefusal {
        shown: credential,
        status: status.as_u16(),
        challenges: challenges.collect(),
    }
}

/// Returns the headers of a credential for one request: `Authorization`, and `DPoP` for a token that
/// is bound to a key.
pub(crate) fn headers(
    credential: Option<&Credential>,
    method: &str,
    uri: &Uri,
) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::new();
    let Some(credential) = credential else { return Ok(headers) };
    let value = |text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|_| {
            let what = "the stored credential is not a valid header value; log in again".to_owned();
            TransportError::Unauthorized { what, challenge: None }
        })?;
        value.set_sensitive(true);
        Ok(value)
    };
    headers.insert(AUTHORIZATION, value(credential.header())?);
    if let Some(proof) = credential.sign_proof(method, &uri.to_string())? {
        headers.insert(DPOP, value(&proof)?);
    }
    Ok(headers)
}

/// Gives the nonce of a response to the credential, for its next proof.
pub(crate) fn take_nonce(credential: Option<&Credential>, uri: &Uri, headers: &HeaderMap) {
    let nonce = headers.get(DPOP_NONCE).and_then(|nonce| nonce.to_str().ok());
    if let (Some(credential), Some(nonce)) = (credential, nonce) {
        credential.set_nonce(&uri.to_string(), nonce);
    }
}

fn describe(error: &ClientError) -> TransportError {
    // The outermost error only says that the request failed; the innermost has the cause.
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let io = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    if let Some(refused) = io.and_then(|inner| inner.downcast_ref::<RefusedAddress>()) {
        let source = Some(Arc::new(io::Error::other(refused.clone())));
        return TransportError::Unreachable { what: refused.to_string(), source };
    }
    let what = cause.to_string();
    match error.is_connect() {
        true => TransportError::Unreachable { what, source: None },
        false => TransportError::Lost(what),
    }
}

/// Limit on the number of response headers.
const MAX_HEADERS: usize = 128;

/// Limit on the size of response headers, in bytes.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

const DPOP: HeaderName = HeaderName::from_static("dpop");

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
