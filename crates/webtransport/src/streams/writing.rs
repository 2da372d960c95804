//! One execution stream on its way: header, payload, end.

use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use mcp_flow_proto::webtransport::StreamHeader;
use mcp_flow_server::Bulk;
use mcp_flow_server::bulk::BulkReader;
use tokio::sync::SetOnce;
use tokio::time::{Instant, timeout};
use web_transport_quinn::quinn::SendStream;

use crate::gate::Gate;
use crate::http3_session::{Session, code};

/// How far a stream has come, and whether it is to end early.
#[derive(Debug)]
pub(super) struct Writing {
    /// When the client last took something.
    moved: Mutex<Instant>,
    ending: SetOnce<Ending>,
}

/// Why a stream ends early.
#[derive(Clone, Debug)]
pub(super) enum Ending {
    /// The client does not want it any more.
    Cancelled,
    /// The server does not go on, and says why.
    GivenUp(&'static str),
}

/// What came of writing, if not all of it.
enum Failure {
    /// The client does not want it, or is not there.
    Unwanted,
    /// Something went wrong that the client is to hear of.
    Failed(String),
}

impl Default for Writing {
    fn default() -> Self {
        Self { moved: Mutex::new(Instant::now()), ending: SetOnce::new() }
    }
}

impl Writing {
    /// Ends it early. The first reason counts.
    pub(super) fn end(&self, ending: Ending) {
        let _ = self.ending.set(ending);
    }

    /// Whether the client has taken nothing for so long.
    pub(super) fn is_stalled(&self, time: Duration) -> bool {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= time
    }

    /// Writes everything and waits until the client has it. An error is what it is to be told.
    pub(super) async fn write(
        &self,
        session: &Session,
        gate: &Gate,
        header: StreamHeader,
        bulk: Bulk,
        unread_time: Duration,
    ) -> Result<(), String> {
        let opened = tokio::select! {
            opened = timeout(unread_time, session.open_uni()) => opened,
            ending = self.ending.wait() => return ending.report(),
        };
        let mut send = match opened {
            Ok(Some(send)) => send,
            Ok(None) => return Ok(()),
            Err(_) => return Err("the client allows no more streams".to_owned()),
        };
        // Among streams that could be sent from, messages go first.
        let _ = send.set_priority(-1);
        // A source is an author's code. Dropped by a panic in it, the stream would look complete.
        let pumped = self.pump(&mut send, gate, header, bulk, unread_time);
        let failure = tokio::select! {
            written = AssertUnwindSafe(pumped).catch_unwind() => match written {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Failed("the source of the stream panicked".to_owned()),
            },
            ending = self.ending.wait() => ending.failure(),
        };
        // Left alone it would look complete.
        let _ = send.reset(code(match failure {
            Failure::Unwanted => CANCELLED,
            Failure::Failed(_) => FAILED,
        }));
        match failure {
            Failure::Unwanted => Ok(()),
            Failure::Failed(error) => Err(error),
        }
    }

    async fn pump(
        &self,
        send: &mut SendStream,
        gate: &Gate,
        header: StreamHeader,
        bulk: Bulk,
        unread_time: Duration,
    ) -> Result<(), Failure> {
        let mut reader: BulkReader = bulk.into_reader();
        let mut piece = Bytes::copy_from_slice(&header.encode());
        loop {
            while !piece.is_empty() {
                gate.pass().await;
                let part = piece.split_to(piece.len().min(PIECE));
                let written = timeout(unread_time, send.write_chunk(part)).await;
                written.map_err(|_| Failure::unread())?.map_err(|_| Failure::Unwanted)?;
                *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            }
            match reader.next().await {
                Some(Ok(next)) => piece = next,
                Some(Err(error)) => return Err(Failure::Failed(error.to_string())),
                None => break,
            }
        }
        send.finish().map_err(|_| Failure::Unwanted)?;
        // It counts as open until the client has all of it.
        match timeout(unread_time, send.stopped()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::unread()),
        }
    }
}

impl Failure {
    fn unread() -> Self {
        Self::Failed("it was not read for too long".to_owned())
    }
}

impl Ending {
    fn failure(&self) -> Failure {
        match self {
            Self::Cancelled => Failure::Unwanted,
            Self::GivenUp(why) => Failure::Failed((*why).to_owned()),
        }
    }

    fn report(&self) -> Result<(), String> {
        match self {
            Self::Cancelled => Ok(()),
            Self::GivenUp(why) => Err((*why).to_owned()),
        }
    }
}

/// How much is handed over at once: more only makes messages wait longer.
const PIECE: usize = 64 * 1024;

/// Codes a stream is reset with.
const CANCELLED: u32 = 1;
const FAILED: u32 = 2;
