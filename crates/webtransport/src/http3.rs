//! Server side of HTTP/3 for one WebTransport session: SETTINGS, CONNECT requests, and the streams
//! of the session.
//!
//! Every request gets a response (WT-009): the first CONNECT for a session is passed on, any other
//! request is rejected with a status. [`Session`](session::Session) is the accepted session.

pub(crate) mod session;

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

/// The HTTP/3 layer of a connection.
#[derive(Debug)]
pub(crate) struct Http3 {
    connection: Connection,
    /// Support for WebTransport in the client's SETTINGS, once they have arrived.
    settings: watch::Sender<Option<bool>>,
    /// The session was requested; a connection has only one.
    session_requested: AtomicBool,
    // Boxed, because a channel allocates slots for several values.
    requests: mpsc::Sender<Box<SessionRequest>>,
    uni: mpsc::Sender<UniStream>,
    bidi: mpsc::Sender<BidiStream>,
}

/// A stream of a session, with the stream id of the CONNECT request.
pub(crate) type UniStream = (VarInt, Box<RecvStream>);
pub(crate) type BidiStream = (VarInt, Box<(SendStream, RecvStream)>);

/// Requests and streams that arrive from a client.
#[derive(Debug)]
pub(crate) struct Arrivals {
    requests: mpsc::Receiver<Box<SessionRequest>>,
    pub(crate) uni: mpsc::Receiver<UniStream>,
    pub(crate) bidi: mpsc::Receiver<BidiStream>,
}

/// A CONNECT request that is not answered yet.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) request: ConnectRequest,
    pub(crate) send: SendStream,
    pub(crate) recv: RecvStream,
}

impl Arrivals {
    /// Waits for the CONNECT request; `None` if the connection is closed.
    pub(crate) async fn request(&mut self) -> Option<Box<SessionRequest>> {
        self.requests.recv().await
    }
}

impl Http3 {
    pub(crate) fn new(connection: Connection) -> (Self, Arrivals) {
        let (requests, request_receiver) = mpsc::channel(1);
        // More than QUIC lets a client have open at once.
        let (uni, uni_streams) = mpsc::channel(16);
        let (bidi, bidi_streams) = mpsc::channel(16);
        let (settings, session_requested) = (watch::Sender::new(None), AtomicBool::new(false));
        let arrivals =
            Arrivals { requests: request_receiver, uni: uni_streams, bidi: bidi_streams };
        (Self { connection, settings, session_requested, requests, uni, bidi }, arrivals)
    }

    /// Accepts streams and requests until the connection is closed.
    pub(crate) async fn run(self) {
        let mut own = Settings::default();
        own.enable_webtransport(1);
        // Closing this stream would end the connection.
        let Ok(mut control) = self.connection.open_uni().await else { return };
        if own.write(&mut control).await.is_err() {
            return;
        }
        let (mut uni, mut bidi) = (FuturesUnordered::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                stream = self.connection.accept_uni() => match stream {
                    Ok(stream) => poll_once(&mut uni, Box::pin(self.accept_uni(stream))),
                    Err(_) => return,
                },
                stream = self.connection.accept_bi() => match stream {
                    Ok((send, recv)) => {
                        poll_once(&mut bidi, Box::pin(self.accept_bidi(send, recv)));
                    }
                    Err(_) => return,
                },
                Some(_) = uni.next() => {}
                Some(_) = bidi.next() => {}
            }
        }
    }

    async fn accept_uni(&self, mut stream: RecvStream) -> Option<()> {
        let kind = VarInt::read(&mut stream).await.ok()?;
        match StreamUni(kind) {
            StreamUni::WEBTRANSPORT => {
                let session = VarInt::read(&mut stream).await.ok()?;
                return self.uni.send((session, Box::new(stream))).await.ok();
            }
            StreamUni::CONTROL => {
                let mut prefix = Vec::new();
                kind.encode(&mut prefix);
                let settings = Settings::read(&mut (&*prefix).chain(&mut stream)).await.ok()?;
                self.settings.send_replace(Some(settings.supports_webtransport() > 0));
            }
            StreamUni::QPACK_ENCODER | StreamUni::QPACK_DECODER => {}
            _ => {
                let _ = stream.stop(STREAM_CREATION_ERROR);
                return None;
            }
        }
        // These streams stay open with the connection, and nothing on them matters here.
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.ok().map(|_| ())
    }

    async fn accept_bidi(&self, send: SendStream, mut recv: RecvStream) -> Option<()> {
        let kind = VarInt::read(&mut recv).await.ok()?;
        if Frame(kind) == Frame::WEBTRANSPORT {
            let session = VarInt::read(&mut recv).await.ok()?;
            return self.bidi.send((session, Box::new((send, recv)))).await.ok();
        }
        let mut prefix = Vec::new();
        kind.encode(&mut prefix);
        let status = match ConnectRequest::read(&mut (&*prefix).chain(&mut recv)).await {
            Ok(_) if self.session_requested.swap(true, Ordering::AcqRel) => {
                StatusCode::TOO_MANY_REQUESTS
            }
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
            // Only sessions are served here.
            Err(
                ConnectError::WrongMethod(_)
                | ConnectError::WrongProtocol(_)
                | ConnectError::WrongScheme(_)
                | ConnectError::WrongPath,
            ) => StatusCode::NOT_FOUND,
            Err(_) => StatusCode::BAD_REQUEST,
        };
        tracing::debug!(%status, "request rejected");
        respond(send, recv, status).await
    }
}

/// Polls once and keeps the future if it is not done. Most are, because the header arrives with the
/// stream.
fn poll_once<F>(unfinished: &mut FuturesUnordered<F>, mut future: F)
where
    F: Future<Output = Option<()>> + Unpin,
{
    if (&mut future).now_or_never().is_none() {
        unfinished.push(future);
    }
}

/// Responds to a request with a status only.
pub(crate) async fn respond(
    mut send: SendStream,
    mut recv: RecvStream,
    status: StatusCode,
) -> Option<()> {
    ConnectResponse::from(status).write(&mut send).await.ok()?;
    send.finish().ok()?;
    // The rest of the request does not matter. It may be complete already.
    let _ = recv.stop(NO_ERROR);
    Some(())
}

/// HTTP/3 error codes for closing connections and stopping streams.
pub(crate) const NO_ERROR: quinn::VarInt = quinn::VarInt::from_u32(0x100);
const STREAM_CREATION_ERROR: quinn::VarInt = quinn::VarInt::from_u32(0x103);
