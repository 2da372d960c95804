//! Unreliable delivery: progress, log messages and audio as datagrams, where the transport has
//! them.

use std::fmt;
use std::time::Duration;

use mcp_flow_proto::error::DATAGRAM_NOT_SUPPORTED;
use mcp_flow_proto::webtransport::{AudioChunk, DatagramChannel};
use mcp_flow_proto::{RequestId, RpcError, method};
use serde::Serialize;

use crate::connection::call::Call;
use crate::context::Context;

/// A transport's datagrams.
///
/// Put into [`ConnectionInfo::datagrams`](crate::ConnectionInfo::datagrams) by transports that have
/// them.
pub trait Datagrams: Send + Sync + fmt::Debug + 'static {
    /// Returns whether the client accepts datagrams.
    fn are_supported(&self) -> bool;

    /// Sends one about a request, or about the whole session, if `allowed` says so under the lock
    /// that keeps datagrams of a request from following its end. What exceeds the queue is dropped.
    fn send(
        &self,
        channel: DatagramChannel,
        request: Option<&RequestId>,
        payload: &[u8],
        allowed: &mut dyn FnMut() -> bool,
    ) -> Result<(), DatagramError>;

    /// Discards queued datagrams of a request.
    fn discard(&self, request: &RequestId);
}

/// A datagram cannot be sent: it is too long, or its request has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramError;

/// Audio format, announced to the client before the first chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AudioFormat {
    /// The codec, as a MIME type such as `audio/L16` or `audio/opus`.
    pub codec: String,
    /// Samples per second and channel.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u8,
}

/// An audio stream to the caller, in numbered chunks of which some may be lost (WT-026).
#[derive(Debug)]
pub struct Audio {
    context: Context,
    next: u32,
}

impl Audio {
    /// The longest chunk, in bytes.
    pub const MAX_LENGTH: usize = AudioChunk::MAX_LENGTH;

    /// Sends the next chunk, which begins this long after the first. Returns whether it was short
    /// enough and the call is still open.
    pub fn send(&mut self, after: Duration, data: &[u8]) -> bool {
        let timestamp = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
        let payload = AudioChunk { sequence: self.next, timestamp, data }.encode();
        self.next = self.next.wrapping_add(1);
        send(self.context.call(), DatagramChannel::Audio, &payload)
    }
}

impl Context {
    /// Announces an audio stream, which is then sent in chunks as datagrams.
    ///
    /// Fails where the connection has no datagrams. If the tool passes the error on, its call fails
    /// with `DATAGRAM_NOT_SUPPORTED` (WT-048).
    pub fn audio(&self, format: &AudioFormat) -> Result<Audio, NotSupported> {
        if !can_send(self.call()) {
            self.fail_with(RpcError::new(DATAGRAM_NOT_SUPPORTED).details(NOT_SUPPORTED));
            return Err(NotSupported);
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Announced<'a> {
            request_id: &'a RequestId,
            #[serde(flatten)]
            format: &'a AudioFormat,
        }
        self.call().notify(method::AUDIO, &Announced { request_id: self.id(), format }, || true);
        Ok(Audio { context: self.clone(), next: 0 })
    }
}

/// Returns whether the caller can be sent datagrams about a call.
fn can_send(call: &Call) -> bool {
    let datagrams = call.connection.info.datagrams.as_ref();
    // A request without a number has none; nothing is sent to find that out.
    datagrams.is_some_and(|datagrams| {
        datagrams.are_supported()
            && datagrams.send(DatagramChannel::Audio, Some(&call.id), &[], &mut || false).is_ok()
    })
}

/// Sends a datagram about a call. Returns whether it could be sent and the call is unanswered.
pub(crate) fn send(call: &Call, channel: DatagramChannel, payload: &[u8]) -> bool {
    let Some(datagrams) = &call.connection.info.datagrams else { return false };
    let mut is_open = false;
    let mut allowed = || {
        is_open = !call.is_answered();
        is_open
    };
    let sent = datagrams.send(channel, Some(&call.id), payload, &mut allowed);
    sent.is_ok() && is_open
}

/// The connection has no datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{NOT_SUPPORTED}")]
pub struct NotSupported;

const NOT_SUPPORTED: &str = "Audio is sent as datagrams, which this connection does not have. \
                             Connect over WebTransport, and number requests from 1.";
