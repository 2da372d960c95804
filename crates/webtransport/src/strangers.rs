//! What a client opens or sends that nobody asked for (WT-047, WT-069).
//!
//! Only the server opens execution streams, so one that a client opens belongs to no request. It is
//! reset and reported. How many there are at once QUIC bounds; reports stop where messages do.

use std::time::Duration;

use mcp_flow_proto::error::{INVALID_REQUEST, STREAM_INJECTION};
use mcp_flow_proto::method;
use mcp_flow_proto::webtransport::{Datagram, HeaderDecoder, StreamError, StreamHeader};
use mcp_flow_server::Connection;
use tokio::time::timeout;
use web_transport_quinn::{RecvStream, Session};

use crate::datagrams::SessionDatagrams;

/// Refuses it all until the session is over.
pub(crate) async fn refuse(
    session: &Session,
    connection: &Connection,
    datagrams: &SessionDatagrams,
) {
    loop {
        tokio::select! {
            stream = session.accept_uni() => match stream {
                Ok(stream) => refuse_stream(stream, connection).await,
                Err(_) => return,
            },
            stream = session.accept_bi() => match stream {
                Ok((mut send, mut recv)) => {
                    let _ = send.reset(INJECTED);
                    let _ = recv.stop(INJECTED);
                    let details = "there is one control stream";
                    let nameless = StreamHeader { request: 0, tag: 0 };
                    let error = StreamError::fault(nameless, INVALID_REQUEST, details);
                    let _ = connection.tell(method::STREAM_ERROR, &error);
                }
                Err(_) => return,
            },
            datagram = session.read_datagram() => match datagram {
                Ok(datagram) => {
                    // Nothing a client sends as a datagram has a meaning here.
                    if let Err(fault) = Datagram::decode(&datagram) {
                        tracing::trace!(%fault, "a datagram was dropped");
                    }
                    datagrams.count_unread();
                }
                Err(_) => if session.close_reason().is_some() {
                    return;
                } else {
                    datagrams.count_unread();
                },
            },
        }
    }
}

/// Reads whose stream it pretends to be, and ends it.
async fn refuse_stream(mut stream: RecvStream, connection: &Connection) {
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
    let _ = stream.stop(INJECTED);
    let error = match header {
        Some(header) => {
            StreamError::fault(header, STREAM_INJECTION, "it belongs to no request in flight")
        }
        None => {
            let nameless = StreamHeader { request: 0, tag: 0 };
            StreamError::fault(nameless, INVALID_REQUEST, "the stream ended within its header")
        }
    };
    let _ = connection.tell(method::STREAM_ERROR, &error);
}

/// How long a header may be on its way.
const HEADER_TIME: Duration = Duration::from_secs(1);

/// The code that streams nobody asked for are stopped with.
const INJECTED: u32 = 3;
