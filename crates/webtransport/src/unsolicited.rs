//! Unsolicited streams and datagrams from a client (WT-047, WT-069).
//!
//! A stream that names a request in flight is read and discarded, since no request takes input by a
//! stream (C-60). Any other stream is reset and reported. QUIC bounds the number of open streams;
//! reports are bounded with the other messages.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use mcp_flow_proto::error::{INVALID_REQUEST, STREAM_INJECTION};
use mcp_flow_proto::webtransport::{Datagram, HeaderDecoder, StreamError, StreamHeader};
use mcp_flow_proto::{RequestId, method};
use mcp_flow_server::Connection;
use mcp_flow_server::bulk::SideChannel;
use tokio::time::timeout;
use web_transport_quinn::quinn::RecvStream;

use crate::datagrams::SessionDatagrams;
use crate::http3::session::{Session, http3_code};
use crate::streams::Streams;

/// Handles unsolicited streams and datagrams until the session ends.
pub(crate) async fn reject(
    session: &Session,
    connection: &Connection,
    streams: &Streams,
    datagrams: &SessionDatagrams,
) {
    let is_in_flight = |request: u32| {
        let id = RequestId::from(i64::from(request));
        request != 0 && (connection.has_request(&id) || streams.is_open(&id))
    };
    let mut discarding = FuturesUnordered::new();
    let mut yields_left = MAX_YIELDS;
    loop {
        tokio::select! {
            stream = session.accept_uni() => match stream {
                Some(stream) => {
                    let matched = match_request(stream, connection, is_in_flight, &mut yields_left).await;
                    if let Some((request, stream)) = matched {
                        discarding.push(discard(stream, move || is_in_flight(request)));
                    }
                }
                None => return,
            },
            Some(()) = discarding.next() => {}
            stream = session.accept_bi() => match stream {
                Some((mut send, mut recv)) => {
                    let _ = send.reset(http3_code(INJECTED));
                    let _ = recv.stop(http3_code(INJECTED));
                    let details = "a session has only one control stream";
                    let unknown = StreamHeader { request: 0, tag: 0 };
                    let error = StreamError::of_kind(unknown, INVALID_REQUEST, details);
                    let _ = connection.notify(method::STREAM_ERROR, &error);
                }
                None => return,
            },
            datagram = session.read_datagram() => {
                let Some(datagram) = datagram else { return };
                // Datagrams from a client have no meaning here.
                if let Ok(Err(error)) = datagram.map(|datagram| Datagram::decode(&datagram).map(drop)) {
                    tracing::trace!(%error, "datagram dropped");
                }
                datagrams.count_ignored();
            }
        }
    }
}

/// Reads the header of a stream. Stops and reports the stream if its request is not in flight.
async fn match_request(
    mut stream: RecvStream,
    connection: &Connection,
    is_in_flight: impl Fn(u32) -> bool,
    yields_left: &mut u32,
) -> Option<(u32, RecvStream)> {
    let mut decoder = HeaderDecoder::default();
    let header = async {
        loop {
            let chunk = stream.read_chunk(decoder.missing(), true).await.ok()??;
            if let Some(header) = decoder.take(&mut &*chunk.bytes) {
                return Some(header);
            }
        }
    };
    let header = timeout(HEADER_TIMEOUT, header).await.ok().flatten();
    if *yields_left > 0 && header.is_some_and(|header| !is_in_flight(header.request)) {
        // The request may have arrived along with the stream, and not be decoded yet.
        *yields_left -= 1;
        tokio::task::yield_now().await;
    }
    if let Some(StreamHeader { request, .. }) = header.filter(|header| is_in_flight(header.request))
    {
        return Some((request, stream));
    }
    let _ = stream.stop(http3_code(INJECTED));
    let error = match header {
        Some(header) => {
            StreamError::of_kind(header, STREAM_INJECTION, "it belongs to no request in flight")
        }
        None => {
            let unknown = StreamHeader { request: 0, tag: 0 };
            StreamError::of_kind(unknown, INVALID_REQUEST, "the stream ended within its header")
        }
    };
    let _ = connection.notify(method::STREAM_ERROR, &error);
    None
}

/// Reads a stream to its end while its request is in flight.
async fn discard(mut stream: RecvStream, is_in_flight: impl Fn() -> bool) {
    while let Ok(Some(_)) = stream.read_chunk(READ, true).await {
        if !is_in_flight() {
            let _ = stream.stop(http3_code(INJECTED));
            return;
        }
    }
}

/// Limit on streams that are given time for their request to be decoded.
const MAX_YIELDS: u32 = 64;

/// Size of one read, in bytes.
const READ: usize = 64 * 1024;

/// Time limit for a stream header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(1);

/// The stop code of unsolicited streams.
const INJECTED: u32 = 3;
