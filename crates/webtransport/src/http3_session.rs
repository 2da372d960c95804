//! One WebTransport session of an HTTP/3 connection, at the server's end.

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

use crate::http3::{Arrivals, BothWays, OneWay, SessionRequest};

/// A session whose request was accepted. Clones are the same.
#[derive(Clone)]
pub(crate) struct Session {
    connection: Connection,
    /// The stream id of its request.
    id: VarInt,
    arrivals: Arc<Arrived>,
    /// The answer to its request, which goes on until the session is closed.
    answer: Arc<Mutex<SendStream>>,
}

struct Arrived {
    one_way: Mutex<mpsc::Receiver<OneWay>>,
    both_ways: Mutex<mpsc::Receiver<BothWays>>,
}

/// Capsules a client sends on its request stream, once it is accepted.
pub(crate) struct Capsules(RecvStream);

impl Session {
    /// Accepts a request.
    pub(crate) async fn accept(
        connection: Connection,
        request: Box<SessionRequest>,
        arrivals: Arrivals,
    ) -> Option<(Self, Capsules)> {
        let SessionRequest { mut send, recv, .. } = *request;
        let id = VarInt::from_u64(quinn::VarInt::from(send.id()).into_inner()).ok()?;
        ConnectResponse::from(StatusCode::OK).write(&mut send).await.ok()?;
        let Arrivals { one_way, both_ways, .. } = arrivals;
        let arrivals = Arrived { one_way: Mutex::new(one_way), both_ways: Mutex::new(both_ways) };
        let answer = Arc::new(Mutex::new(send));
        Some((Self { connection, id, arrivals: Arc::new(arrivals), answer }, Capsules(recv)))
    }

    /// Opens a stream to the client.
    pub(crate) async fn open_uni(&self) -> Option<SendStream> {
        let mut send = self.connection.open_uni().await.ok()?;
        let mut head = Vec::new();
        StreamUni::WEBTRANSPORT.encode(&mut head);
        self.id.encode(&mut head);
        send.write_all(&head).await.ok()?;
        Some(send)
    }

    /// Waits for a stream that the client only writes on; `None` once there will be none.
    pub(crate) async fn accept_uni(&self) -> Option<RecvStream> {
        let mut arrivals = self.arrivals.one_way.lock().await;
        loop {
            match arrivals.recv().await? {
                (id, stream) if id == self.id => return Some(*stream),
                (_, mut stream) => _ = stream.stop(NO_SUCH_SESSION),
            }
        }
    }

    /// Waits for a stream that goes both ways; `None` once there will be none.
    pub(crate) async fn accept_bi(&self) -> Option<(SendStream, RecvStream)> {
        let mut arrivals = self.arrivals.both_ways.lock().await;
        loop {
            match arrivals.recv().await? {
                (id, streams) if id == self.id => return Some(*streams),
                (_, streams) => {
                    let (mut send, mut recv) = *streams;
                    let _ = send.reset(NO_SUCH_SESSION);
                    let _ = recv.stop(NO_SUCH_SESSION);
                }
            }
        }
    }

    /// Waits for a datagram; an error is one of no session, and `None` the end.
    pub(crate) async fn read_datagram(&self) -> Option<Result<Bytes, NotOurs>> {
        let mut datagram = self.connection.read_datagram().await.ok()?;
        Some(match VarInt::decode(&mut datagram) {
            Ok(id) if id == self.quarter() => Ok(datagram),
            _ => Err(NotOurs),
        })
    }

    pub(crate) fn send_datagram(&self, payload: &[u8]) -> Result<(), quinn::SendDatagramError> {
        let quarter = self.quarter();
        let mut datagram = BytesMut::with_capacity(quarter.size() + payload.len());
        quarter.encode(&mut datagram);
        datagram.put_slice(payload);
        self.connection.send_datagram(datagram.freeze())
    }

    /// The longest datagram that can be sent; 0 if the client takes none.
    pub(crate) fn max_datagram_size(&self) -> usize {
        let longest = self.connection.max_datagram_size().unwrap_or_default();
        longest.saturating_sub(self.quarter().size())
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Closes the session by a capsule, which browsers tell their pages of, and the connection once
    /// the client has it, or could have had it.
    pub(crate) async fn close(&self, number: u32, reason: &str) {
        let capsule = Capsule::CloseWebTransportSession { code: number, reason: reason.to_owned() };
        let (mut body, mut frame) = (Vec::new(), Vec::new());
        capsule.encode(&mut body);
        Frame::DATA.encode(&mut frame);
        if let Ok(length) = VarInt::try_from(body.len()) {
            length.encode(&mut frame);
            frame.extend_from_slice(&body);
        }
        let told = async {
            let mut answer = self.answer.lock().await;
            if answer.write_all(&frame).await.is_ok() && answer.finish().is_ok() {
                self.connection.closed().await;
            }
        };
        let patience = (self.connection.rtt() * 3).max(CLOSING);
        let _ = timeout(patience, told).await;
        self.connection.close(code(number), reason.as_bytes());
    }

    /// Prefix of the session's datagrams: a quarter of its id (RFC 9297).
    fn quarter(&self) -> VarInt {
        VarInt::from_u64(self.id.into_inner() / 4).expect("less than what is one")
    }
}

impl Capsules {
    /// Waits until the client closes the session, and says with which code.
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
pub(crate) struct NotOurs;

/// A code of WebTransport as a code of HTTP/3.
pub(crate) fn code(number: u32) -> quinn::VarInt {
    quinn::VarInt::from_u64(error_to_http3(number)).expect("codes of HTTP/3 are numbers of QUIC")
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The code of HTTP/3 that streams of no session are stopped with.
const NO_SUCH_SESSION: quinn::VarInt = quinn::VarInt::from_u32(0x3994_bd84);

/// Least time a client has to read that the session is closed.
const CLOSING: Duration = Duration::from_millis(100);
