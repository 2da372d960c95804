//! HTTP client for OAuth: sends within bounds, and follows redirects only where that is harmless.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::LOCATION;
use hyper::{Request, Response, StatusCode};
use mcp_flow_http::client::{Addresses, Fetch, HttpOptions, Trust};
use url::{Origin, Url};

use crate::bounds;
use crate::error::{OAuthError, tell};

/// Sends what is asked about tokens, over the same connections and TLS as everything else.
#[derive(Debug)]
pub(crate) struct Messenger {
    origin: Origin,
    addresses: Addresses,
    to_server: Fetch,
    to_others: Fetch,
}

impl Messenger {
    pub(crate) fn new(
        server: &Url,
        trust: &Trust,
        private: bool,
        time_limit: Duration,
    ) -> Result<Self, OAuthError> {
        let addresses = bounds::addresses(server, private);
        let fetch = |trust: Trust| {
            let options = HttpOptions::new().trust(trust).addresses(addresses.clone());
            Fetch::new(&options, LONGEST_ANSWER, time_limit)
                .map_err(|bad| OAuthError::BadServer(bad.to_string()))
        };
        // The hash of one server's certificate says nothing about anybody else's.
        let others = match trust {
            Trust::Hashes(_) => Trust::System,
            trust => trust.clone(),
        };
        let (to_server, to_others) = (fetch(trust.clone())?, fetch(others)?);
        Ok(Self { origin: server.origin(), addresses, to_server, to_others })
    }

    /// Checks an address before anything is sent there: its scheme, and where it is if it says so.
    /// Where a name leads is checked when it is dialled.
    pub(crate) fn check(&self, what: &str, address: &str) -> Result<Url, OAuthError> {
        let url = bounds::check(what, address)?;
        match bounds::literal(&url) {
            Some(address) if !self.addresses.allows(&bounds::bare(&url), address) => {
                let what = format!("{what} is {}, which is out of bounds", tell(url.as_str(), &[]));
                Err(OAuthError::OutOfBounds(what))
            }
            _ => Ok(url),
        }
    }

    /// Sends a request, and follows nobody: a secret belongs where it was sent.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let url = self.check("where to ask", &request.uri().to_string())?;
        let fetch = if url.origin() == self.origin { &self.to_server } else { &self.to_others };
        Ok(fetch.send(request).await?)
    }

    /// Fetches a public document. Redirects are followed within its origin.
    ///
    /// A server that cannot answer at the moment fails, so that nobody takes it for one that has no
    /// such document; any other status is for the caller to judge.
    pub(crate) async fn get(&self, address: &Url) -> Result<Response<Bytes>, OAuthError> {
        let failed =
            |what: &str| OAuthError::Failed(tell(&format!("cannot get {address}: {what}"), &[]));
        let mut url = address.clone();
        for _ in 0..MOST_REDIRECTS {
            let request = Request::get(url.as_str())
                // MCP 2025-03-26 wants a version here; every server knows the first one.
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

/// Limit on the length of documents and answers; honest ones are far shorter.
const LONGEST_ANSWER: usize = 256 * 1024;

const MOST_REDIRECTS: usize = 10;

const TRANSIENT: [StatusCode; 3] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
