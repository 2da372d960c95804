//! Hand-written HTTP and WebSocket, for invalid requests and frames.

use mcp_flow_testkit::http::{Connection, Request};

use crate::attack::connection::with_token;
use crate::attack::target::Target;

/// A valid upgrade request for a WebSocket.
pub(crate) fn upgrade() -> Request {
    Request::new("GET", "/ws")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==")
}

/// A WebSocket whose bytes the test writes itself.
pub(crate) struct Socket(Connection);

impl Socket {
    pub(crate) async fn open(target: &Target) -> Self {
        Self::open_as(target, target.token()).await
    }

    /// Opens a WebSocket with a bearer token.
    pub(crate) async fn open_as(target: &Target, token: Option<&str>) -> Self {
        let answer = with_token(token, upgrade()).send(target.address).await;
        assert_eq!(answer.status, 101);
        Self(answer.into_connection())
    }

    /// Writes bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes).await;
    }

    /// Reads the next frame: its first byte and its payload, or `None` at the end of the
    /// connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.0.byte().await?;
        let mut length = usize::from(self.0.byte().await?);
        let more = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if more > 0 {
            length = 0;
            for _ in 0..more {
                length = length << 8 | usize::from(self.0.byte().await?);
            }
        }
        let mut payload = Vec::with_capacity(length.min(1 << 20));
        for _ in 0..length {
            payload.push(self.0.byte().await?);
        }
        Some((first, payload))
    }

    /// Reads until the close frame, and returns its code if there is one.
    pub(crate) async fn close_code(&mut self) -> Option<u16> {
        loop {
            let (first, payload) = self.frame().await?;
            if first & 0x0f == 8 {
                return Some(u16::from_be_bytes([*payload.first()?, *payload.get(1)?]));
            }
        }
    }
}

/// A WebSocket frame of a client, masked with zeros.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut frame = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..126), _) => frame.push(0x80 | short),
        (_, Ok(medium)) => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Sends bytes over a new connection, and returns the statuses of all responses until the server
/// closes it.
pub(crate) async fn statuses(target: &Target, bytes: &[u8]) -> Vec<u16> {
    let mut connection = Connection::open(target.address).await;
    connection.write(bytes).await;
    let mut all = Vec::new();
    while let Some(mut answer) = connection.try_response().await {
        all.push(answer.status);
        answer.bytes().await;
        connection = answer.into_connection();
    }
    all
}

/// Sends bytes over a new connection, and returns the status of the first response.
pub(crate) async fn first_status(target: &Target, bytes: &[u8]) -> Option<u16> {
    let mut connection = Connection::open(target.address).await;
    connection.write(bytes).await;
    connection.try_response().await.map(|answer| answer.status)
}
