//! What a client opens or sends that nobody asked for (WT-047, WT-069).
//!
//! A stream that names a request in flight belongs to it: it is read and discarded, since no request
//! takes anything by a stream (C-60). Any other is reset and reported. How many there are at once
//! QUIC bounds; reports stop where messages do.

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
use crate::http3_session::{Session, code};
use crate::streams::Streams;

/// Deals with it all until the session is over.
pub(crate) async fn refuse(
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
    let mut doubts = MOST_DOUBTS;
    loop {
        tokio::select! {
            stream = session.accept_uni() => match stream {
                Some(stream) => {
                    let admitted = admit(stream, connection, is_in_flight, &mut doubts).await;
                    if let Some((request, stream)) = admitted {
                        discarding.push(discard(stream, move || is_in_flight(request)));
                    }
                }
                None => return,
            },
            Some(()) = discarding.next() => {}
            stream = session.accept_bi() => match stream {
                Some((mut send, mut recv)) => {
                    let _ = send.reset(code(INJECTED));
                    let _ = recv.stop(code(INJECTED));
                    let details = "there is one control stream";
                    let nameless = StreamHeader { request: 0, tag: 0 };
                    let error = StreamError::fault(nameless, INVALID_REQUEST, details);
                    let _ = connection.notify(method::STREAM_ERROR, &error);
                }
                None => return,
            },
            datagram = session.read_datagram() => {
                let Some(datagram) = datagram else { return };
                // Nothing a client sends as a datagram has a meaning here.
                if let Ok(Err(fault)) = datagram.map(|datagram| Datagram::decode(&datagram).map(drop)) {
                    tracing::trace!(%fault, "a datagram was dropped");
                }
                datagrams.count_unread();
            }
        }
    }
}

/// Reads which request a stream names. Ends it and reports it if that is not in flight.
async fn admit(
    mut stream: RecvStream,
    connection: &Connection,
    is_in_flight: impl Fn(u32) -> bool,
    doubts: &mut u32,
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
    let header = timeout(HEADER_TIME, header).await.ok().flatten();
    if *doubts > 0 && header.is_some_and(|header| !is_in_flight(header.request)) {
        // The request may have come with it, and not have been looked at.
        *doubts -= 1;
        tokio::task::yield_now().await;
    }
    if let Some(StreamHeader { request, .. }) = header.filter(|header| is_in_flight(header.request))
    {
        return Some((request, stream));
    }
    let _ = stream.stop(code(INJECTED));
    let error = match header {
        Some(header) => {
            StreamError::fault(header, STREAM_INJECTION, "it belongs to no request in flight")
        }
        None => {
            let nameless = StreamHeader { request: 0, tag: 0 };
            StreamError::fault(nameless, INVALID_REQUEST, "the stream ended within its header")
        }
    };
    let _ = connection.notify(method::STREAM_ERROR, &error);
    None
}

/// Reads a stream to its end, for as long as its request is in flight.
async fn discard(mut stream: RecvStream, is_in_flight: impl Fn() -> bool) {
    while let Ok(Some(_)) = stream.read_chunk(READ, true).await {
        if !is_in_flight() {
            let _ = stream.stop(code(INJECTED));
            return;
        }
    }
}

/// Limit on streams of a client that are given time for their request to be read.
const MOST_DOUBTS: u32 = 64;

/// Size of one read, in bytes.
const READ: usize = 64 * 1024;

/// How long a header may be on its way.
const HEADER_TIME: Duration = Duration::from_secs(1);

/// The code that streams nobody asked for are stopped with.
const INJECTED: u32 = 3;
