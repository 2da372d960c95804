//! Plain HTTP requests with bounded responses, for requests beside MCP.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use http_body_util::Full;
use hyper::{Request, Response};
use mcp_flow_client::transport::TransportError;

use crate::dialer::RefusedAddress;
use crate::pool::Pool;
use crate::{BadTarget, HttpOptions, exchange};

/// HTTP client for single requests, with limits on response size and time. Redirects are not
/// followed.
#[derive(Debug)]
pub struct Fetch {
    pool: Pool,
    max_body: usize,
    timeout: Duration,
}

/// A request without a usable response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The connection failed, or the response was too long.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The response took too long.
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
}

impl FetchError {
    /// Returns whether no connection was made, so that nothing was sent.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Transport(TransportError::Unreachable { .. }))
    }

    /// Returns whether the host has no address that is allowed.
    pub fn is_refused_address(&self) -> bool {
        let Self::Transport(TransportError::Unreachable { source: Some(source), .. }) = self else {
            return false;
        };
        source.get_ref().and_then(|inner| inner.downcast_ref::<RefusedAddress>()).is_some()
    }
}

/// Response whose body is read in pieces.
pub type StreamedResponse = Response<BoxStream<'static, Result<Bytes, TransportError>>>;

impl Fetch {
    /// Creates a client with limits on the length of bodies and the time of a request.
    pub fn new(
        options: &HttpOptions,
        max_body: usize,
        timeout: Duration,
    ) -> Result<Self, BadTarget> {
        Ok(Self { pool: Pool::new(options)?, max_body, timeout })
    }

    /// Sends a request and reads the whole response, whatever its status. The body of an event stream
    /// is left out.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, FetchError> {
        let request = async {
            let response = self.pool.send(request.map(Full::new)).await?;
            let (head, body) = response.into_parts();
            // An event stream does not end.
            let is_stream = exchange::media_type(&head.headers) == "text/event-stream";
            let body = match is_stream {
                true => Bytes::new(),
                false => exchange::read_body(body, self.max_body).await?,
            };
            Ok(Response::from_parts(head, body))
        };
        let response = tokio::time::timeout(self.timeout, request).await;
        response.map_err(|_| FetchError::TimedOut(self.timeout))?
    }

    /// Sends a request and returns the response when its head has arrived. The time and the length of
    /// the body are the caller's to limit.
    pub async fn open(&self, request: Request<Bytes>) -> Result<StreamedResponse, FetchError> {
        let response = tokio::time::timeout(self.timeout, self.pool.send(request.map(Full::new)));
        let response = response.await.map_err(|_| FetchError::TimedOut(self.timeout))??;
        Ok(response.map(exchange::chunks))
    }
}
