//! HTTP/3 at the server's end, as far as it takes to hold one WebTransport session: SETTINGS, the
//! requests of a client, and the streams of its session told apart from them.
//!
//! Every request is answered (WT-009): the first that asks for a session is handed out, and whatever
//! else a client asks for is refused by its status. [`Session`](crate::http3_session::Session) is
//! what becomes of the one that is accepted.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::proto::{
    ConnectError, ConnectRequest, ConnectResponse, Frame, Settings, StreamUni, VarInt,
};
use web_transport_quinn::quinn::{self, Connection, RecvStream, SendStream};

/// Speaks HTTP/3 on a connection.
#[derive(Debug)]
pub(crate) struct Http3 {
    connection: Connection,
    /// Whether the client's settings allow WebTransport, once they have come.
    settings: watch::Sender<Option<bool>>,
    /// Whether somebody has asked for the one session there is.
    is_asked: AtomicBool,
    // What goes through is boxed, since a channel keeps room for a number of them.
    requests: mpsc::Sender<Box<SessionRequest>>,
    one_way: mpsc::Sender<OneWay>,
    both_ways: mpsc::Sender<BothWays>,
}

/// A stream of a session, behind the stream id of the session's request.
pub(crate) type OneWay = (VarInt, Box<RecvStream>);
pub(crate) type BothWays = (VarInt, Box<(SendStream, RecvStream)>);

/// Requests and streams that arrive from a client.
#[derive(Debug)]
pub(crate) struct Arrivals {
    requests: mpsc::Receiver<Box<SessionRequest>>,
    pub(crate) one_way: mpsc::Receiver<OneWay>,
    pub(crate) both_ways: mpsc::Receiver<BothWays>,
}

/// A request for a session, to be answered.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) request: ConnectRequest,
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
}

impl Arrivals {
    /// Waits until the client asks for a session; `None` if it is gone.
    pub(crate) async fn request(&mut self) -> Option<Box<SessionRequest>> {
        self.requests.recv().await
    }
}

impl Http3 {
    pub(crate) fn new(connection: Connection) -> (Self, Arrivals) {
        let (requests, asked) = mpsc::channel(1);
        // More than QUIC lets a client have open at once.
        let (one_way, one_way_came) = mpsc::channel(16);
        let (both_ways, both_ways_came) = mpsc::channel(16);
        let (settings, is_asked) = (watch::Sender::new(None), AtomicBool::new(false));
        let arrivals =
            Arrivals { requests: asked, one_way: one_way_came, both_ways: both_ways_came };
        (Self { connection, settings, is_asked, requests, one_way, both_ways }, arrivals)
    }

    /// Takes in streams, and answers requests, until the connection is over.
    pub(crate) async fn run(self) {
        let mut own = Settings::default();
        own.enable_webtransport(1);
        // Closing it would end the connection.
        let Ok(mut control) = self.connection.open_uni().await else { return };
        if own.write(&mut control).await.is_err() {
            return;
        }
        let (mut one_way, mut both_ways) = (FuturesUnordered::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                stream = self.connection.accept_uni() => match stream {
                    Ok(stream) => begin(&mut one_way, Box::pin(self.take_one_way(stream))),
                    Err(_) => return,
                },
                stream = self.connection.accept_bi() => match stream {
                    Ok((send, recv)) => {
                        begin(&mut both_ways, Box::pin(self.take_both_ways(send, recv)));
                    }
                    Err(_) => return,
                },
                Some(_) = one_way.next() => {}
                Some(_) = both_ways.next() => {}
            }
        }
    }

    async fn take_one_way(&self, mut stream: RecvStream) -> Option<()> {
        let kind = VarInt::read(&mut stream).await.ok()?;
        match StreamUni(kind) {
            StreamUni::WEBTRANSPORT => {
                let session = VarInt::read(&mut stream).await.ok()?;
                return self.one_way.send((session, Box::new(stream))).await.ok();
            }
            StreamUni::CONTROL => {
                let mut begun = Vec::new();
                kind.encode(&mut begun);
                let settings = Settings::read(&mut (&*begun).chain(&mut stream)).await.ok()?;
                self.settings.send_replace(Some(settings.supports_webtransport() > 0));
            }
            StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER => {}
            _ => {
                let _ = stream.stop(STREAM_CREATION_ERROR);
                return None;
            }
        }
        // Nothing on them changes anything here, and they stay open as long as the connection.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok().map(|_| ())
    }

    async fn take_both_ways(&self, send: SendStream, mut recv: RecvStream) -> Option<()> {
        let kind = VarInt::read(&mut recv).await.ok()?;
        if Frame(kind) == Frame::WEBTRANSPORT {
            let session = VarInt::read(&mut recv).await.ok()?;
            return self.both_ways.send((session, Box::new((send, recv)))).await.ok();
        }
        let mut begun = Vec::new();
        kind.encode(&mut begun);
        let status = match ConnectRequest::read(&mut (&*begun).chain(&mut recv)).await {
            Ok(_) if self.is_asked.swap(true, Ordering::AcqRel) => StatusCode::TOO_MANY_REQUESTS,
            Ok(request) => {
                let mut settings = self.settings.subscribe();
                let settings = settings.wait_for(Option::is_some).await.ok()?.unwrap_or_default();
                if settings {
                    let request = SessionRequest { request, send, recv };
                    return self.requests.send(Box::new(request)).await.ok();
                }
                StatusCode::BAD_REQUEST
            }
            Err(ConnectError::FieldSectionTooLarge | ConnectError::FrameTooLarge) => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            // There is nothing here but sessions.
            Err(
                ConnectError::WrongMethod(_)
                | ConnectError::WrongProtocol(_)
                | ConnectError::WrongScheme(_)
                | ConnectError::WrongPath,
            ) => StatusCode::NOT_FOUND,
            Err(_) => StatusCode::BAD_REQUEST,
        };
        tracing::debug!(%status, "a request that begins no session was refused");
        respond(send, recv, status).await
    }
}

/// Keeps what is not done at once; most streams are, since their head comes with them.
fn begin<F>(unfinished: &mut FuturesUnordered<F>, mut taking: F)
where
    F: Future<Output = Option<()>> + Unpin,
{
    if (&mut taking).now_or_never().is_none() {
        unfinished.push(taking);
    }
}

/// Answers a request by nothing but its status.
pub(crate) async fn respond(
    mut send: SendStream,
    mut recv: RecvStream,
    status: StatusCode,
) -> Option<()> {
    ConnectResponse::from(status).write(&mut send).await.ok()?;
    send.finish().ok()?;
    // What else the request has is of no interest. It may be over already.
    let _ = recv.stop(NO_ERROR);
    Some(())
}

/// Codes of HTTP/3 that connections are closed and streams are stopped with.
pub(crate) const NO_ERROR: quinn::VarInt = quinn::VarInt::from_u32(0x100);
const STREAM_CREATION_ERROR: quinn::VarInt = quinn::VarInt::from_u32(0x103);
