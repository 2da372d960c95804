//! A JSON endpoint at a URL, for requests beside MCP.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::ACCEPT;
use hyper::{Method, Request};
use url::Url;

use crate::pool::Pool;
use crate::{BadTarget, HttpOptions, exchange};

/// A URL that returns JSON, such as the key set of an issuer. Redirects are not followed.
#[derive(Debug)]
pub struct JsonEndpoint {
    url: Url,
    pool: Pool,
}

impl JsonEndpoint {
    /// Creates a client for the endpoint at a URL.
    pub fn new(url: &str, options: &HttpOptions) -> Result<Self, BadTarget> {
        let url = Url::parse(url).map_err(|error| BadTarget::new(format!("{url:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadTarget::new(format!("{url}: use http or https")));
        }
        Ok(Self { pool: Pool::new(options)?, url })
    }

    /// Gets the document, if it has at most `limit` bytes.
    pub async fn get(&self, limit: usize) -> Result<Bytes, String> {
        self.send(exchange::request(Method::GET, &self.url, Full::default()), limit).await
    }

    /// Posts a JSON document and returns the response body, if it has at most `limit` bytes.
    pub async fn post(&self, body: Vec<u8>, limit: usize) -> Result<Bytes, String> {
        self.send(exchange::post(&self.url, body), limit).await
    }

    async fn send(&self, mut request: Request<Full<Bytes>>, limit: usize) -> Result<Bytes, String> {
        request.headers_mut().insert(ACCEPT, exchange::JSON);
        let response = self.pool.send(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        let body = exchange::read_body(body, limit).await.map_err(|error| error.to_string())?;
        match head.status.is_success() {
            true => Ok(body),
            false => Err(exchange::rejection(head.status, &head.headers, &body).to_string()),
        }
    }
}
