//! An idle connection: opened properly, then silent.

use std::{
    fmt,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use memchr::memmem;

use crate::reply::excerpt;

/// The transports with long-lived connections.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The event stream of HTTP+SSE, the transport of 2024-11-05
    Sse,
    WebSocket,
}

impl Kind {
    fn request(self, server: SocketAddr) -> String {
        match self {
            Self::Sse => {
                format!("GET /sse HTTP/1.1\r\nHost: {server}\r\nAccept: text/event-stream\r\n\r\n")
            }
            Self::WebSocket => format!(
                "GET /ws HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: {KEY}\r\n\r\n"
            ),
        }
    }

    /// Returns whether the whole welcome has arrived, which for SSE includes the first event.
    fn is_welcome(self, received: &[u8]) -> anyhow::Result<bool> {
        let Some(end) = memmem::find(received, b"\r\n\r\n") else { return Ok(false) };
        let (head, body) = received.split_at(end + 4);
        let contains = |bytes: &[u8], text: &str| memmem::find(bytes, text.as_bytes()).is_some();
        match self {
            Self::Sse => {
                ensure!(head.starts_with(b"HTTP/1.1 200 "), "no event stream was opened");
                Ok(names_endpoint(body))
            }
            Self::WebSocket => {
                ensure!(head.starts_with(b"HTTP/1.1 101 "), "no upgrade took place");
                ensure!(contains(head, ACCEPT), "an upgrade has the wrong accept key");
                Ok(true)
            }
        }
    }
}

/// Returns whether an event stream, chunked or not, contains the complete `endpoint` event.
fn names_endpoint(stream: &[u8]) -> bool {
    let Some(end) = memchr::memrchr(b'\n', stream) else { return false };
    let mut lines = stream[..end].split(|&byte| byte == b'\n');
    let mut find = |field: &[u8], value: Option<&[u8]>| {
        lines.any(|line| {
            let found = line.strip_prefix(field).map(<[u8]>::trim_ascii);
            found.is_some_and(|found| value.is_none_or(|value| found == value))
        })
    };
    find(b"event:", Some(b"endpoint")) && find(b"data:", None)
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Sse => "SSE",
            Self::WebSocket => "WebSocket",
        })
    }
}

/// One open connection.
pub(crate) struct Idle(TcpStream);

impl Idle {
    /// Connects and waits until the server has handled the new client completely.
    pub(crate) fn open(server: SocketAddr, kind: Kind) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect(server).context("cannot connect to the server")?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.write_all(kind.request(server).as_bytes())?;
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        let welcomed = loop {
            match kind.is_welcome(&received) {
                Ok(false) => {}
                outcome => break outcome.map(drop),
            }
            match socket.read(&mut buffer).context("the server does not answer")? {
                0 => break Err(anyhow::anyhow!("the server closed a new connection")),
                read => received.extend_from_slice(&buffer[..read]),
            }
        };
        welcomed.with_context(|| format!("received: {}", excerpt(&received)))?;
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Checks that the server has not closed the connection. Keep-alive messages are ignored.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.0.read(&mut buffer) {
                Ok(0) => bail!("the server closed an idle connection"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("an idle connection broke"),
            }
        }
    }
}

/// Time limit for a server to welcome a client.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The example of RFC 6455, whose accept value is known without computing a hash.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stream_is_open_once_it_has_named_its_endpoint() {
        let head = "HTTP/1.1 200 OK\r\n\r\n";
        check(Kind::Sse, "HTTP/1.1 200 OK\r\n", Ok(false));
        check(Kind::Sse, head, Ok(false));
        check(Kind::Sse, &format!("{head}event: endpoint\ndata: /mess"), Ok(false));
        check(Kind::Sse, &format!("{head}event: endpoint\ndata: /messages?a=b\n\n"), Ok(true));
        check(Kind::Sse, "HTTP/1.1 404 Not Found\r\n\r\n", Err("no event stream"));
    }

    #[test]
    fn a_web_socket_is_open_once_it_has_been_upgraded() {
        let upgraded = format!("HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: {ACCEPT}\r\n\r\n");
        check(Kind::WebSocket, &upgraded, Ok(true));
        check(Kind::WebSocket, &upgraded.replace("s3p", "xxx"), Err("wrong accept key"));
        check(Kind::WebSocket, "HTTP/1.1 400 Bad Request\r\n\r\n", Err("no upgrade"));
    }

    fn check(kind: Kind, received: &str, expected: Result<bool, &str>) {
        match (kind.is_welcome(received.as_bytes()), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{received:?}"),
            (Err(error), Err(message)) => assert!(error.to_string().contains(message)),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }
}
