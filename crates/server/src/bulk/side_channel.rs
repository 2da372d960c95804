//! Side channels: a transport's way to deliver payloads outside its messages.

use std::fmt;
use std::pin::Pin;

use mcp_flow_proto::webtransport::StreamError;
use mcp_flow_proto::{RequestId, RpcError};

use super::Bulk;
use crate::identity::Principal;

/// A transport's delivery of payloads outside its messages, such as downloads or streams.
///
/// Set as [`ConnectionInfo::side_channel`](crate::ConnectionInfo::side_channel) by transports that have one.
pub trait SideChannel: Send + Sync + fmt::Debug + 'static {
    /// Returns an error if nothing can be delivered for a request; payloads are then sent inline,
    /// up to the result limit.
    fn check(&self, _request: &RequestId) -> Result<(), DeliveryRejected> {
        Ok(())
    }

    /// Accepts a payload for the result of a request, and returns its location. May wait for other
    /// deliveries.
    fn deliver<'a>(&'a self, request: &'a DeliveryRequest<'a>, bulk: Bulk) -> DeliveryFuture<'a>;

    /// Returns whether a delivery of a request is unfinished, so that its id cannot be reused
    /// (C-51).
    fn is_open(&self, _request: &RequestId) -> bool {
        false
    }

    /// Called when a request with deliveries has been answered; the flag says whether with a result
    /// that refers to them, rather than with an error or not at all.
    fn replied(&self, _request: &RequestId, _is_result: bool) {}

    /// Called when a request is cancelled, which may have been answered already.
    fn cancelled(&self, _request: &RequestId) {}

    /// Called when the client reports that it could not read a stream to its end.
    fn failed(&self, _error: &StreamError) {}
}

/// The future of a [`SideChannel`]'s delivery.
pub type DeliveryFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Location, DeliveryRejected>> + Send + 'a>>;

/// The request that a payload belongs to.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryRequest<'a> {
    /// The request.
    pub request: &'a RequestId,
    /// Its principal.
    pub principal: &'a Principal,
}

/// The location of a delivered payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A URL to download it from.
    Link(String),
    /// The tag of its execution stream.
    Stream(u32),
}

/// Rejection by a side channel.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRejected(pub RpcError);

impl fmt::Display for DeliveryRejected {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())
    }
}

impl std::error::Error for DeliveryRejected {}
