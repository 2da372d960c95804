//! Sends requests to a collector, over HTTP or gRPC.

use std::io::Write;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, TE, USER_AGENT,
};
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use mcp_flow_http_client::{BadTarget, Dialer, HttpOptions, Trust};

use crate::settings::{Destination, Protocol};

/// Client of one collector.
pub(crate) struct Sender {
    client: Client<Dialer, Full<Bytes>>,
    destination: Destination,
}

/// A request that the collector did not take.
#[derive(Debug, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct SendError {
    problem: String,
    /// Set if the same request may succeed later.
    pub(crate) is_temporary: bool,
    /// Time after which the collector wants it again.
    pub(crate) retry_after: Option<Duration>,
}

impl SendError {
    /// The collector took longer than there was time.
    pub(crate) fn late() -> Self {
        Self::permanent("no response in time")
    }

    fn temporary(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), is_temporary: true, retry_after: None }
    }

    fn permanent(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), is_temporary: false, retry_after: None }
    }
}

impl Sender {
    pub(crate) fn new(destination: Destination) -> Result<Self, BadTarget> {
        let trust = destination.certificate.clone().map_or(Trust::System, Trust::File);
        let is_grpc = destination.protocol == Protocol::Grpc;
        let protocols: &[&str] = if is_grpc { &["h2"] } else { &["h2", "http/1.1"] };
        let dialer = Dialer::new(&HttpOptions::new().trust(trust), protocols)?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .http2_only(is_grpc)
            .build(dialer);
        Ok(Self { client, destination })
    }

    /// Sends a request. Returns the number of records that the collector rejected, if any.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<u64, SendError> {
        let timeout = self.destination.timeout;
        let sent = tokio::time::timeout(timeout, self.exchange(message)).await;
        let late = format!("no response within {} ms", timeout.as_millis());
        sent.map_err(|_| SendError::temporary(late))?
    }

    async fn exchange(&self, message: Vec<u8>) -> Result<u64, SendError> {
        let is_grpc = self.destination.protocol == Protocol::Grpc;
        let response = self.client.request(self.request(message)).await;
        // The error of the client says little; its cause says what failed.
        let response = response.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            SendError::temporary(cause.unwrap_or_else(|| error.to_string()))
        })?;
        match is_grpc {
            true => read_grpc(response).await,
            false => read_http(response).await,
        }
    }

    fn request(&self, message: Vec<u8>) -> Request<Full<Bytes>> {
        let Destination { url, protocol, headers, is_compressed, .. } = &self.destination;
        let is_grpc = *protocol == Protocol::Grpc;
        let message = match is_compressed {
            true => compress(&message),
            false => message.into(),
        };
        let encoding = if is_grpc { "grpc-encoding" } else { CONTENT_ENCODING.as_str() };
        let body = if is_grpc { frame(&message, *is_compressed) } else { message };
        let mut request = Request::post(url.clone()).body(Full::new(body)).expect("a valid URL");
        let own = request.headers_mut();
        own.extend(headers.clone());
        let agent = concat!("mcp-flow/", env!("CARGO_PKG_VERSION"));
        own.insert(USER_AGENT, HeaderValue::from_static(agent));
        let kind = if is_grpc { "application/grpc" } else { "application/x-protobuf" };
        own.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if *is_compressed {
            own.insert(encoding, HeaderValue::from_static("gzip"));
        }
        if is_grpc {
            own.insert(TE, HeaderValue::from_static("trailers"));
        }
        request
    }
}

async fn read_http(response: Response<Incoming>) -> Result<u64, SendError> {
    let (head, body) = response.into_parts();
    let status = head.status;
    // Read also if it is an error, so that the connection can be used again.
    let body = Limited::new(body, MAX_RESPONSE).collect().await.map(Collected::to_bytes);
    if status.is_success() {
        return Ok(body.map_or(0, |body| rejected(&body)));
    }
    let problem = format!("the collector answered {status}");
    let is_temporary = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ]
    .contains(&status);
    let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
    let retry_after = retry_after.map(|seconds: u32| Duration::from_secs(seconds.into()));
    Err(SendError { problem, is_temporary, retry_after })
}

async fn read_grpc(response: Response<Incoming>) -> Result<u64, SendError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        let problem = format!("the collector answered {}; does it speak gRPC?", head.status);
        let is_temporary = head.status.is_server_error();
        return Err(SendError { problem, is_temporary, retry_after: None });
    }
    let body = Limited::new(body, MAX_RESPONSE).collect().await;
    let body = body.map_err(|_| SendError::temporary("the response was cut off"))?;
    // An error may come without a body: its status is among the headers then.
    let trailers = body.trailers().cloned().unwrap_or_default();
    let find = |name: &str| {
        let found = |headers: &HeaderMap| headers.get(name)?.to_str().ok().map(str::to_owned);
        found(&trailers).or_else(|| found(&head.headers))
    };
    let Some(code) = find("grpc-status") else {
        return Err(SendError::permanent("the response has no grpc-status"));
    };
    if code == "0" {
        return Ok(body.to_bytes().get(5..).map_or(0, rejected));
    }
    let text = find("grpc-message").unwrap_or_default();
    let text: String = text.chars().filter(|one| !one.is_control()).take(200).collect();
    let problem = format!("the collector answered with gRPC status {code} {text}");
    // Cancelled, deadline exceeded, resource exhausted, aborted, out of range, unavailable, data loss.
    let is_temporary = ["1", "4", "8", "10", "11", "14", "15"].contains(&code.as_str());
    Err(SendError { problem, is_temporary, retry_after: None })
}

/// Adds the prefix of a message in gRPC.
fn frame(message: &Bytes, is_compressed: bool) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.extend_from_slice(&[u8::from(is_compressed)]);
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(message);
    framed.freeze()
}

fn compress(message: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(message).and_then(|()| encoder.finish());
    written.expect("writing to memory does not fail").into()
}

/// Reads the number of rejected records of a response: field 1 of field 1.
fn rejected(response: &[u8]) -> u64 {
    let partial = match response {
        [0x0a, length, rest @ ..] if *length < 0x80 => rest.get(..usize::from(*length)),
        // Two bytes suffice for every message that is worth reading.
        [0x0a, low, high, rest @ ..] if *high < 0x80 => {
            rest.get(..usize::from(low & 0x7f) | usize::from(*high) << 7)
        }
        _ => None,
    };
    let Some([0x08, digits @ ..]) = partial else { return 0 };
    let mut value = 0_u64;
    for (index, byte) in digits.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return value;
        }
    }
    0
}

/// Longest response that is read, in bytes.
const MAX_RESPONSE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::rejected;

    #[test]
    fn rejected_records_are_read_from_any_response() {
        for (response, expected) in [
            (&[][..], 0),
            (&[0x0a, 0], 0),
            (&[0x0a, 2, 0x08, 7], 7),
            (&[0x0a, 3, 0x08, 0x80, 0x01], 128),
            (&[0x0a, 9, 0x08, 7], 0),
            (&[0x0a, 0x82, 0x00, 0x08, 7], 7),
            (&[0x0a, 2, 0x12, 0], 0),
            (&[0x0a], 0),
            (&[0xff; 20], 0),
            (&[0x0a, 12, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 0),
        ] {
            assert_eq!(rejected(response), expected, "{response:?}");
        }
    }
}
