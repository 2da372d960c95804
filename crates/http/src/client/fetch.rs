//! Single requests with whole answers, for what is spoken beside the protocol.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response};
use mcp_flow_client::transport::TransportError;

use super::wire::Wire;
use super::{BadTarget, HttpOptions, sending};

/// Sends single requests and gives back whole answers of bounded length in bounded time. Nobody is
/// followed to another place.
#[derive(Debug)]
pub struct Fetch {
    wire: Wire,
    longest: usize,
    time: Duration,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// It did not come, or was too long.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// It took too long.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

impl Fetch {
    /// Answers may be of `longest` bytes and take this time.
    pub fn new(options: &HttpOptions, longest: usize, time: Duration) -> Result<Self, BadTarget> {
        Ok(Self { wire: Wire::new(options)?, longest, time })
    }

    /// Sends a request and reads the whole answer, whatever its status. What a stream of events says
    /// is left out.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, FetchError> {
        let exchange = async {
            let answer = self.wire.send(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            // A stream of events has no end, and nothing that is wanted here.
            let is_stream = sending::media_type(&head.headers) == "text/event-stream";
            let body = match is_stream {
                true => Bytes::new(),
                false => sending::whole(body, self.longest).await?,
            };
            Ok(Response::from_parts(head, body))
        };
        let answer = tokio::time::timeout(self.time, exchange).await;
        answer.map_err(|_| FetchError::TimedOut(self.time))?
    }
}
