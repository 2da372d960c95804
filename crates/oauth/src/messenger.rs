//! How authorization servers are spoken to: the SDK says what to send, this sends it, in bounds.

use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use mcp_flow_http::client::{Fetch, HttpOptions, Trust};
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRequest};
use url::{Origin, Url};

use crate::bounds;
use crate::error::OAuthError;

/// Sends what is asked about tokens, over the same connections and TLS as everything else.
#[derive(Debug)]
pub(crate) struct Messenger {
    origin: Origin,
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
        let fetch = |trust: Trust| {
            let addresses = bounds::addresses(server, private);
            let options = HttpOptions::new().trust(trust).addresses(addresses);
            Fetch::new(&options, LONGEST_ANSWER, time_limit)
                .map_err(|bad| OAuthError::BadServer(bad.to_string()))
        };
        // The hash of one server's certificate says nothing about anybody else's.
        let others = match trust {
            Trust::Hashes(_) => Trust::System,
            trust => trust.clone(),
        };
        let (to_server, to_others) = (fetch(trust.clone())?, fetch(others)?);
        Ok(Self { origin: server.origin(), to_server, to_others })
    }

    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<hyper::Response<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let url = bounds::check("where to ask", &request.uri().to_string())?;
        let fetch = if url.origin() == self.origin { &self.to_server } else { &self.to_others };
        Ok(fetch.send(request).await?)
    }
}

impl OAuthHttpClient for Messenger {
    /// Follows nobody, whatever the SDK would allow: a secret belongs where it was sent.
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let answer = self.send(request.request.map(Bytes::from)).await?;
            Ok(answer.map(|body| body.to_vec()))
        })
    }
}

/// No honest document about tokens is longer.
const LONGEST_ANSWER: usize = 256 * 1024;
