//! HTTP client for OAuth: checks every address, and follows redirects only within an origin.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::LOCATION;
use hyper::{Request, Response, StatusCode};
use mcp_flow_http_client::{AllowedAddresses, Fetch, HttpOptions, Trust};
use url::{Origin, Url};

use crate::address_policy;
use crate::error::{OAuthError, redact};

/// Sends requests to the server and to authorization servers.
#[derive(Debug)]
pub(crate) struct HttpClient {
    origin: Origin,
    addresses: AllowedAddresses,
    to_server: Fetch,
    to_others: Fetch,
}

impl HttpClient {
    pub(crate) fn new(
        server: &Url,
        trust: &Trust,
        private: bool,
        time_limit: Duration,
    ) -> Result<Self, OAuthError> {
        let addresses = address_policy::allowed_addresses(server, private);
        let fetch = |trust: Trust| {
            let options = HttpOptions::new().trust(trust).addresses(addresses.clone());
            Fetch::new(&options, MAX_BODY, time_limit)
                .map_err(|bad| OAuthError::InvalidServer(bad.to_string()))
        };
        // A pinned fingerprint is that of the server, not of its authorization server.
        let others = match trust {
            Trust::Fingerprints(_) => Trust::System,
            trust => trust.clone(),
        };
        let (to_server, to_others) = (fetch(trust.clone())?, fetch(others)?);
        Ok(Self { origin: server.origin(), addresses, to_server, to_others })
    }

    /// Checks a URL before a request: its scheme, and its host if that is an IP address. The addresses
    /// of host names are checked when they are dialled.
    pub(crate) fn check(&self, what: &str, address: &str) -> Result<Url, OAuthError> {
        let url = address_policy::check_url(what, address)?;
        match address_policy::literal_address(&url) {
            Some(address) if !self.addresses.allows(&address_policy::host(&url), address) => {
                let what = format!("{what} is {}, which is not allowed", redact(url.as_str(), &[]));
                Err(OAuthError::Untrusted(what))
            }
            _ => Ok(url),
        }
    }

    /// Sends a request without following redirects, which could leak its secrets.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let url = self.check("the URL", &request.uri().to_string())?;
        let fetch = if url.origin() == self.origin { &self.to_server } else { &self.to_others };
        Ok(fetch.send(request).await?)
    }

    /// Fetches a public document, following redirects within its origin.
    ///
    /// Temporary failures of the server are errors, so that they are not mistaken for a missing
    /// document. Every other status is returned.
    pub(crate) async fn get(&self, address: &Url) -> Result<Response<Bytes>, OAuthError> {
        let failed =
            |what: &str| OAuthError::Failed(redact(&format!("cannot get {address}: {what}"), &[]));
        let mut url = address.clone();
        for _ in 0..MAX_REDIRECTS {
            let request = Request::get(url.as_str())
                // Required by MCP 2025-03-26; every server knows the first version.
                .header("MCP-Protocol-Version", "2024-11-05")
                .body(Bytes::new())
                .map_err(|error| failed(&error.to_string()))?;
            let answer = self.send(request).await.map_err(|error| failed(&error.to_string()))?;
            let status = answer.status();
            if status.is_server_error() || TRANSIENT.contains(&status) {
                return Err(failed(&status.to_string()));
            }
            let location = answer.headers().get(LOCATION).filter(|_| status.is_redirection());
            let Some(location) = location else { return Ok(answer) };
            let next = location.to_str().ok().and_then(|location| url.join(location).ok());
            let next = next.filter(|next| next.origin() == url.origin());
            url = next.ok_or_else(|| failed("it is a redirect to another origin"))?;
        }
        Err(failed("there are too many redirects"))
    }
}

/// Limit on the length of documents and responses.
const MAX_BODY: usize = 256 * 1024;

const MAX_REDIRECTS: usize = 10;

const TRANSIENT: [StatusCode; 3] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
