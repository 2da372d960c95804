//! Watching exchanges go by, for those who look after a server.
//!
//! Nothing is noted of a request unless somebody watches when it is taken up.

use std::time::{Duration, Instant};

use mcp_flow_proto::{Encoding, Params, Raw, RequestId, RpcError};

use crate::connection::ConnectionInfo;
use crate::handler::Payload;
use crate::identity::Peer;

/// Sees every exchange of a server; see
/// [`ServerBuilder::observer`](crate::ServerBuilder::observer).
///
/// Both methods run on the path of every request, and should return quickly.
pub trait Observer: Send + Sync + 'static {
    /// Whether anybody watches at the moment.
    fn is_watching(&self) -> bool;

    /// A request that was taken up while somebody watched has been answered.
    fn observe(&self, exchange: &Observed<'_>);
}

/// One request and its answer.
#[derive(Debug)]
pub struct Observed<'a> {
    /// What the transport knows of its connection.
    pub connection: &'a ConnectionInfo,
    /// What the client says of itself, if that is known.
    pub peer: Option<&'a Peer>,
    /// The id of the request.
    pub id: &'a RequestId,
    /// What was asked for.
    pub method: &'a str,
    /// With what, as JSON; of what is long only the beginning.
    pub params: &'a str,
    /// The length of the request, in bytes.
    pub request_bytes: usize,
    /// How the result is written.
    pub encoding: Encoding,
    /// The result, or the error.
    pub outcome: Result<&'a [u8], &'a RpcError>,
    /// How long it took from being taken up to being answered.
    pub time: Duration,
}

/// What is noted of a request when it is taken up.
#[derive(Debug)]
pub(crate) struct Begun {
    method: Box<str>,
    params: Box<str>,
    size: usize,
    at: Instant,
}

impl Begun {
    pub(crate) fn new(method: &str, params: Params<'_>, size: usize) -> Box<Self> {
        let params = match params.object() {
            Raw::Json(text) => beginning(text).into(),
            raw @ Raw::Cbor(_) => {
                let value = raw.decode::<serde_json::Value>().unwrap_or_default();
                beginning(&value.to_string()).into()
            }
        };
        let method = beginning(method).into();
        Box::new(Self { method, params, size, at: Instant::now() })
    }

    pub(crate) fn tell(
        &self,
        observer: &dyn Observer,
        connection: &ConnectionInfo,
        peer: Option<&Peer>,
        id: &RequestId,
        outcome: Result<&Payload, &RpcError>,
    ) {
        observer.observe(&Observed {
            connection,
            peer,
            id,
            method: &self.method,
            params: &self.params,
            request_bytes: self.size,
            encoding: outcome.map_or(Encoding::Json, |payload| payload.encoding),
            outcome: outcome.map(|payload| &payload.bytes[..]),
            time: self.at.elapsed(),
        });
    }
}

fn beginning(text: &str) -> &str {
    let whole = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=text.len().min(LONGEST_PARAMS)).rev().find(whole).unwrap_or_default();
    &text[..end]
}

/// How many bytes of params are noted.
const LONGEST_PARAMS: usize = 4096;
