//! Writes one execution stream: header, payload, end.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use mcp_flow_proto::webtransport::StreamHeader;
use mcp_flow_server::Bulk;
use mcp_flow_server::bulk::BulkReader;
use parking_lot::Mutex;
use tokio::sync::SetOnce;
use tokio::time::{Instant, timeout};
use web_transport_quinn::quinn::SendStream;

use crate::http3::session::{Session, http3_code};
use crate::pause::StreamPause;

/// The progress of a stream, and the request to end it early.
#[derive(Debug)]
pub(super) struct StreamWriter {
    /// Time at which the client last accepted data.
    last_progress: Mutex<Instant>,
    ending: SetOnce<EarlyEnd>,
}

/// The reason a stream ends early.
#[derive(Clone, Debug)]
pub(super) enum EarlyEnd {
    /// The client does not want it any more.
    Cancelled,
    /// The server gives it up for this reason.
    GivenUp(&'static str),
}

/// The reason a stream was not written completely.
enum Failure {
    /// The client does not want it, or is gone.
    Unwanted,
    /// An error to report to the client.
    Failed(String),
}

impl Default for StreamWriter {
    fn default() -> Self {
        Self { last_progress: Mutex::new(Instant::now()), ending: SetOnce::new() }
    }
}

impl StreamWriter {
    /// Ends the stream early. The first reason counts.
    pub(super) fn end(&self, ending: EarlyEnd) {
        let _ = self.ending.set(ending);
    }

    /// Returns whether the client has accepted nothing for `time`.
    pub(super) fn is_stalled(&self, time: Duration) -> bool {
        self.last_progress.lock().elapsed() >= time
    }

    /// Writes the whole stream and waits until the client has it. An error is to be reported to the
    /// client.
    pub(super) async fn write(
        &self,
        session: &Session,
        pause: &StreamPause,
        header: StreamHeader,
        bulk: Bulk,
        write_timeout: Duration,
    ) -> Result<(), String> {
        let opened = tokio::select! {
            opened = timeout(write_timeout, session.open_uni()) => opened,
            ending = self.ending.wait() => return ending.report(),
        };
        let mut send = match opened {
            Ok(Some(send)) => send,
            Ok(None) => return Ok(()),
            Err(_) => return Err("the client allows no more streams".to_owned()),
        };
        // Messages have priority over execution streams.
        let _ = send.set_priority(-1);
        // The source is application code. If it panicked and the stream was dropped, the stream
        // would look complete.
        let payload_written = self.write_payload(&mut send, pause, header, bulk, write_timeout);
        let failure = tokio::select! {
            written = AssertUnwindSafe(payload_written).catch_unwind() => match written {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Failed("the source of the stream panicked".to_owned()),
            },
            ending = self.ending.wait() => ending.failure(),
        };
        // Without a reset it would look complete.
        let _ = send.reset(http3_code(match failure {
            Failure::Unwanted => CANCELLED,
            Failure::Failed(_) => FAILED,
        }));
        match failure {
            Failure::Unwanted => Ok(()),
            Failure::Failed(error) => Err(error),
        }
    }

    async fn write_payload(
        &self,
        send: &mut SendStream,
        pause: &StreamPause,
        header: StreamHeader,
        bulk: Bulk,
        write_timeout: Duration,
    ) -> Result<(), Failure> {
        let mut reader: BulkReader = bulk.into_reader();
        let mut chunk = Bytes::copy_from_slice(&header.encode());
        loop {
            while !chunk.is_empty() {
                pause.wait().await;
                let part = chunk.split_to(chunk.len().min(CHUNK_SIZE));
                let written = timeout(write_timeout, send.write_chunk(part)).await;
                written.map_err(|_| Failure::unread())?.map_err(|_| Failure::Unwanted)?;
                *self.last_progress.lock() = Instant::now();
            }
            match reader.next().await {
                Some(Ok(next)) => chunk = next,
                Some(Err(error)) => return Err(Failure::Failed(error.to_string())),
                None => break,
            }
        }
        send.finish().map_err(|_| Failure::Unwanted)?;
        // It counts as open until the client has all of it.
        match timeout(write_timeout, send.stopped()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::unread()),
        }
    }
}

impl Failure {
    fn unread() -> Self {
        Self::Failed("it was not read in time".to_owned())
    }
}

impl EarlyEnd {
    fn failure(&self) -> Failure {
        match self {
            Self::Cancelled => Failure::Unwanted,
            Self::GivenUp(reason) => Failure::Failed((*reason).to_owned()),
        }
    }

    fn report(&self) -> Result<(), String> {
        match self {
            Self::Cancelled => Ok(()),
            Self::GivenUp(reason) => Err((*reason).to_owned()),
        }
    }
}

/// Size of one write: larger ones would only delay messages.
const CHUNK_SIZE: usize = 64 * 1024;

/// Reset codes of a stream.
const CANCELLED: u32 = 1;
const FAILED: u32 = 2;
