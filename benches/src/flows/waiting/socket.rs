//! Minimal WebSocket client for small texts.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use memchr::memmem;
use serde_json::Value;

use crate::reply::excerpt;

/// A WebSocket after its handshake.
pub(crate) struct Socket {
    stream: TcpStream,
    /// Bytes to send before the next receive.
    outgoing: Vec<u8>,
    received: Vec<u8>,
}

impl Socket {
    pub(super) fn open(server: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server).context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut socket = Self { stream, outgoing: Vec::new(), received: Vec::new() };
        write!(
            socket.outgoing,
            "GET /ws HTTP/1.1\r\nHost: {server}\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )?;
        let end = loop {
            socket.read()?;
            if let Some(end) = memmem::find(&socket.received, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = excerpt(&socket.received);
        ensure!(socket.received.starts_with(b"HTTP/1.1 101 "), "no upgrade took place: {head}");
        socket.received.drain(..end);
        Ok(socket)
    }

    /// Queues a message, which is sent before the next receive.
    pub(crate) fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u16::try_from(text.len()).expect("what is sent here is small");
        // A final text frame, masked with zeros, which leaves the payload unchanged.
        self.outgoing.extend([0x81, 0x80 | 126]);
        self.outgoing.extend(length.to_be_bytes());
        self.outgoing.extend([0; 4]);
        self.outgoing.extend(text.as_bytes());
    }

    /// Waits for the next message.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Value> {
        loop {
            if let Some((kind, start, end)) = frame(&self.received) {
                let message = match kind {
                    TEXT => Some(serde_json::from_slice(&self.received[start..end])?),
                    PING => None,
                    _ => bail!("the server says {}", excerpt(&self.received)),
                };
                self.received.drain(..end);
                match message {
                    Some(message) => return Ok(message),
                    None => continue,
                }
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.outgoing).context("cannot send")?;
        self.outgoing.clear();
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer).context("the server does not answer")? {
            0 => bail!("the server closed a connection"),
            read => self.received.extend_from_slice(&buffer[..read]),
        }
        Ok(())
    }
}

/// Returns the opcode and the payload range of the first frame, if it is complete.
fn frame(bytes: &[u8]) -> Option<(u8, usize, usize)> {
    let (kind, short) = (bytes.first()? & 0x0f, bytes.get(1)? & 0x7f);
    let (length, start) = match short {
        126 => (u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?).into(), 4),
        127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
        short => (usize::from(short), 2),
    };
    let end = start + length;
    (bytes.len() >= end).then_some((kind, start, end))
}

const TEXT: u8 = 1;
const PING: u8 = 9;
const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_when_all_of_it_is_there() {
        let long = [&[0x81, 126, 1, 0][..], &[b'x'; 256]].concat();
        assert_eq!(frame(&long), Some((TEXT, 4, 260)));
        assert_eq!(frame(&long[..259]), None);
        assert_eq!(frame(&[0x89, 0, 0x81]), Some((PING, 2, 2)));
        assert_eq!(frame(&[0x81]), None);
    }
}
