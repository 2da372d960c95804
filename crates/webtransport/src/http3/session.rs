//! The server side of one WebTransport session on an HTTP/3 connection.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::proto::{
    Capsule, ConnectResponse, Frame, Http3CapsuleReader, StreamUni, VarInt, error_to_http3,
};
use web_transport_quinn::quinn::{self, Connection, RecvStream, SendStream};

use crate::http3::{Arrivals, BidiStream, SessionRequest, UniStream};

/// An accepted session. Clones share it.
#[derive(Clone)]
pub(crate) struct Session {
    connection: Connection,
    /// The stream id of the CONNECT request.
    id: VarInt,
    arrivals: Arc<SessionStreams>,
    /// The response stream of the CONNECT request, open until the session is closed.
    response: Arc<Mutex<SendStream>>,
}

struct SessionStreams {
    uni: Mutex<mpsc::Receiver<UniStream>>,
    bidi: Mutex<mpsc::Receiver<BidiStream>>,
}

/// The capsules a client sends on the CONNECT stream.
pub(crate) struct Capsules(RecvStream);

impl Session {
    /// Accepts a CONNECT request.
    pub(crate) async fn accept(
        connection: Connection,
        request: Box<SessionRequest>,
        arrivals: Arrivals,
    ) -> Option<(Self, Capsules)> {
        let SessionRequest { mut send, recv, .. } = *request;
        let id = VarInt::from_u64(quinn::VarInt::from(send.id()).into_inner()).ok()?;
        ConnectResponse::from(StatusCode::OK).write(&mut send).await.ok()?;
        let Arrivals { uni, bidi, .. } = arrivals;
        let arrivals = SessionStreams { uni: Mutex::new(uni), bidi: Mutex::new(bidi) };
        let response = Arc::new(Mutex::new(send));
        Some((Self { connection, id, arrivals: Arc::new(arrivals), response }, Capsules(recv)))
    }

    /// Opens a unidirectional stream to the client.
    pub(crate) async fn open_uni(&self) -> Option<SendStream> {
        let mut send = self.connection.open_uni().await.ok()?;
        let mut head = Vec::new();
        StreamUni::WEBTRANSPORT.encode(&mut head);
        self.id.encode(&mut head);
        send.write_all(&head).await.ok()?;
        Some(send)
    }

    /// Accepts a unidirectional stream; `None` once the connection is closed.
    pub(crate) async fn accept_uni(&self) -> Option<RecvStream> {
        let mut arrivals = self.arrivals.uni.lock().await;
        loop {
            match arrivals.recv().await? {
                (id, stream) if id == self.id => return Some(*stream),
                (_, mut stream) => _ = stream.stop(UNKNOWN_SESSION),
            }
        }
    }

    /// Accepts a bidirectional stream; `None` once the connection is closed.
    pub(crate) async fn accept_bi(&self) -> Option<(SendStream, RecvStream)> {
        let mut arrivals = self.arrivals.bidi.lock().await;
        loop {
            match arrivals.recv().await? {
                (id, streams) if id == self.id => return Some(*streams),
                (_, streams) => {
                    let (mut send, mut recv) = *streams;
                    let _ = send.reset(UNKNOWN_SESSION);
                    let _ = recv.stop(UNKNOWN_SESSION);
                }
            }
        }
    }

    /// Waits for a datagram; an error is a datagram of another session, `None` the end.
    pub(crate) async fn read_datagram(&self) -> Option<Result<Bytes, ForeignDatagram>> {
        let mut datagram = self.connection.read_datagram().await.ok()?;
        Some(match VarInt::decode(&mut datagram) {
            Ok(id) if id == self.quarter_stream_id() => Ok(datagram),
            _ => Err(ForeignDatagram),
        })
    }

    pub(crate) fn send_datagram(&self, payload: &[u8]) -> Result<(), quinn::SendDatagramError> {
        let quarter_stream_id = self.quarter_stream_id();
        let mut datagram = BytesMut::with_capacity(quarter_stream_id.size() + payload.len());
        quarter_stream_id.encode(&mut datagram);
        datagram.put_slice(payload);
        self.connection.send_datagram(datagram.freeze())
    }

    /// Returns the maximum size of a datagram; 0 if the client accepts none.
    pub(crate) fn max_datagram_size(&self) -> usize {
        let longest = self.connection.max_datagram_size().unwrap_or_default();
        longest.saturating_sub(self.quarter_stream_id().size())
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the session with a capsule, which browsers report to the page, then closes the
    /// connection once the client has received it or had the time to.
    pub(crate) async fn close(&self, number: u32, reason: &str) {
        let capsule = Capsule::CloseWebTransportSession { code: number, reason: reason.to_owned() };
        let (mut body, mut frame) = (Vec::new(), Vec::new());
        capsule.encode(&mut body);
        Frame::DATA.encode(&mut frame);
        if let Ok(length) = VarInt::try_from(body.len()) {
            length.encode(&mut frame);
            frame.extend_from_slice(&body);
        }
        let closed = async {
            let mut response = self.response.lock().await;
            if response.write_all(&frame).await.is_ok() && response.finish().is_ok() {
                self.connection.closed().await;
            }
        };
        let limit = (self.connection.rtt() * 3).max(MIN_CLOSE_TIME);
        let _ = timeout(limit, closed).await;
        self.connection.close(http3_code(number), reason.as_bytes());
    }

    /// Returns the prefix of the session's datagrams: a quarter of its id (RFC 9297).
    fn quarter_stream_id(&self) -> VarInt {
        VarInt::from_u64(self.id.into_inner() / 4).expect("smaller than a valid id")
    }
}

impl Capsules {
    /// Waits until the client closes the session, and returns the close code.
    pub(crate) async fn closed(self) -> u32 {
        let mut capsules = Http3CapsuleReader::new(self.0);
        loop {
            match capsules.read().await {
                Ok(Some(Capsule::CloseWebTransportSession { code, .. })) => return code,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return 0,
            }
        }
    }
}

/// A datagram that belongs to no session of this connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForeignDatagram;

/// Maps a WebTransport error code to an HTTP/3 error code.
pub(crate) fn http3_code(number: u32) -> quinn::VarInt {
    quinn::VarInt::from_u64(error_to_http3(number)).expect("HTTP/3 codes fit a varint")
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The HTTP/3 error code for streams of unknown sessions.
const UNKNOWN_SESSION: quinn::VarInt = quinn::VarInt::from_u32(0x3994_bd84);

/// Minimum time for a client to receive the close capsule.
const MIN_CLOSE_TIME: Duration = Duration::from_millis(100);
