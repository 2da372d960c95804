//! A document at a URL, to be fetched again and again.

use http_body_util::Full;
use hyper::Method;
use hyper::header::ACCEPT;
use url::Url;

use super::wire::Wire;
use super::{BadTarget, HttpOptions, sending};

/// A JSON document at a URL, such as the keys of an issuer of tokens.
#[derive(Debug)]
pub struct Document {
    url: Url,
    wire: Wire,
}

impl Document {
    /// The document at a URL.
    pub fn new(url: &str, options: &HttpOptions) -> Result<Self, BadTarget> {
        let url = Url::parse(url).map_err(|error| BadTarget::new(format!("{url:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(BadTarget::new(format!("{url}: use http or https")));
        }
        Ok(Self { wire: Wire::new(options)?, url })
    }

    /// Fetches it, if it is not longer than this. Nobody is followed to another place.
    pub async fn fetch(&self, longest: usize) -> Result<Vec<u8>, String> {
        let mut request = sending::request(Method::GET, &self.url, Full::default());
        request.headers_mut().insert(ACCEPT, sending::JSON);
        let answer = self.wire.send(request).await.map_err(|error| error.to_string())?;
        let (head, body) = answer.into_parts();
        let body = sending::whole(body, longest).await.map_err(|error| error.to_string())?;
        if !head.status.is_success() {
            return Err(sending::refusal(head.status, &head.headers, &body).to_string());
        }
        Ok(body.to_vec())
    }
}
