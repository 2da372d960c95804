//! One HTTP client: a keep-alive socket with at most one call in flight.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{era::Era, response::Response};
use crate::{
    call,
    reply::{Reply, excerpt},
};

/// A connection on which calls can be made, after the handshake if its era has one.
pub(crate) struct Connection {
    socket: TcpStream,
    era: Era,
    /// The request head up to the content length, the same for every call.
    head: String,
    request: Vec<u8>,
    body: Vec<u8>,
    received: Vec<u8>,
    filled: usize,
    in_flight: Option<(usize, Instant)>,
}

impl Connection {
    /// Connects, with a bearer token if one is given.
    pub(crate) fn open(server: SocketAddr, era: Era, token: Option<&str>) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(server).context("cannot connect to the server")?;
        socket.set_nodelay(true)?;
        let credential =
            token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{credential}"
        );
        let mut connection = Self {
            socket,
            era,
            head,
            request: Vec::new(),
            body: Vec::new(),
            received: vec![0; 16 * 1024],
            filled: 0,
            in_flight: None,
        };
        match era {
            Era::Handshake => connection.shake_hands().context("no handshake")?,
            Era::Stateless => connection.head += era.headers(),
        }
        // Only now, because the handshake may block.
        connection.socket.set_nonblocking(true)?;
        Ok(connection)
    }

    /// Makes the call with this id.
    pub(crate) fn call(&mut self, id: usize) -> anyhow::Result<()> {
        self.body.clear();
        call::write(&mut self.body, id, self.era.params())?;
        self.in_flight = Some((id, Instant::now()));
        self.send()
    }

    /// Reads once. Returns the latency if that completed the response, which is checked.
    pub(crate) fn receive(&mut self) -> anyhow::Result<Option<Duration>> {
        if !self.read()? {
            return Ok(None);
        }
        let received = &self.received[..self.filled];
        let Some(response) = Response::decode(received)? else { return Ok(None) };
        let (id, start) = self.in_flight.take().context("a response came without a call")?;
        let elapsed = start.elapsed();
        check(&response, id).with_context(|| format!("call {id}: {}", excerpt(received)))?;
        ensure!(response.length == self.filled, "the server sent more than one response");
        self.filled = 0;
        Ok(Some(elapsed))
    }

    fn shake_hands(&mut self) -> anyhow::Result<()> {
        let revision = self.era.revision();
        let version = env!("CARGO_PKG_VERSION");
        let (session, reply) = self.exchange(&json!({
            "jsonrpc": "2.0",
            "id": "initialize",
            "method": "initialize",
            "params": {
                "protocolVersion": revision,
                "capabilities": {},
                "clientInfo": { "name": "mcp-flow-benches", "version": version },
            },
        }))?;
        let reply = reply.context("initialize was not answered")?;
        ensure!(
            reply["result"]["protocolVersion"] == revision,
            "initialize was answered with {reply}"
        );
        self.head += self.era.headers();
        if let Some(session) = session {
            self.head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.exchange(&initialized).map(drop)
    }

    /// Sends one message, waits, and returns the session id and the message of the response.
    fn exchange(&mut self, message: &Value) -> anyhow::Result<(Option<String>, Option<Value>)> {
        self.body = serde_json::to_vec(message)?;
        self.send()?;
        loop {
            self.read()?;
            let received = &self.received[..self.filled];
            let Some(response) = Response::decode(received)? else { continue };
            let session = response.header("mcp-session-id").map(str::to_owned);
            let reply = match response.status {
                200 => Some(serde_json::from_slice(response.message()?)?),
                202 => None,
                _ => bail!("{message} was answered with {}", excerpt(received)),
            };
            self.filled = 0;
            return Ok((session, reply));
        }
    }

    fn send(&mut self) -> anyhow::Result<()> {
        self.request.clear();
        self.request.extend_from_slice(self.head.as_bytes());
        write!(self.request, "Content-Length: {}\r\n\r\n", self.body.len())?;
        self.request.extend_from_slice(&self.body);
        // A small request fits an empty socket buffer, so this never blocks.
        self.socket.write_all(&self.request).context("cannot send a request")
    }

    /// Returns whether anything arrived.
    fn read(&mut self) -> anyhow::Result<bool> {
        if self.filled == self.received.len() {
            self.received.resize(2 * self.filled, 0);
        }
        match self.socket.read(&mut self.received[self.filled..]) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("cannot read a response"),
        }
        Ok(true)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A server that fails or miscalculates quickly would win, so any other result is an error.
fn check(response: &Response<'_>, id: usize) -> anyhow::Result<()> {
    ensure!(response.status == 200, "a call was answered with status {}", response.status);
    let answer = Reply::decode(response.message()?)?.context("a call was answered with nothing")?;
    ensure!(answer.id == id, "a call was answered under another id");
    ensure!(call::is_sum(id, &answer.text), "a result is wrong");
    Ok(())
}
