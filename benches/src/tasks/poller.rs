//! Requests on keep-alive connections, as fast as they are answered or at a steady pace.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use rustix::{
    buffer::spare_capacity,
    event::{
        Timespec,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
};
use serde_json::{Value, json};

use crate::{http::response::Response, reply::excerpt};

/// Returns the bytes of one request.
pub(super) fn request(
    host: &str,
    token: Option<&str>,
    method: &str,
    name: &str,
    mut params: Value,
) -> Vec<u8> {
    params["_meta"] = super::meta();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let body = message.to_string();
    let credential =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n{name}{credential}Content-Length: {length}\r\n\r\n{body}"
    );
    request.into_bytes()
}

/// Sends one request, and waits for its message.
pub(super) fn exchange(socket: &mut TcpStream, request: &[u8]) -> anyhow::Result<Value> {
    socket.write_all(request)?;
    let mut received = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let read = socket.read(&mut piece)?;
        ensure!(read > 0, "the server closed a connection");
        received.extend_from_slice(&piece[..read]);
        if let Some(response) = Response::decode(&received)? {
            ensure!(response.status == 200, "the server answered {}", excerpt(&received));
            return Ok(serde_json::from_slice(response.message()?)?);
        }
    }
}

/// Connections, each with at most one request in flight.
pub(super) struct Poller {
    sockets: Vec<Socket>,
    epoll: std::os::fd::OwnedFd,
}

struct Socket {
    stream: TcpStream,
    received: Vec<u8>,
    filled: usize,
    is_waiting: bool,
    due: Instant,
    sent: usize,
}

impl Poller {
    pub(super) fn new(streams: Vec<TcpStream>) -> anyhow::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut sockets = Vec::new();
        for (index, stream) in (0..).zip(streams) {
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, EventData::new_u64(index), EventFlags::IN)?;
            let received = vec![0; 16 * 1024];
            let due = Instant::now();
            sockets.push(Socket { stream, received, filled: 0, is_waiting: false, due, sent: 0 });
        }
        Ok(Self { sockets, epoll })
    }

    /// Sends requests for a while, the next on a connection `interval` after the one before. Returns
    /// the number of responses, all of which are checked.
    pub(super) fn drive<'a>(
        &mut self,
        mut next: impl FnMut(usize, usize) -> &'a [u8],
        interval: Duration,
        duration: Duration,
    ) -> anyhow::Result<usize> {
        let begun = Instant::now();
        let count = u32::try_from(self.sockets.len())?;
        // Spread over the interval, so that requests do not come in bursts.
        for (index, socket) in (0..).zip(&mut self.sockets) {
            socket.due = begun + interval * index / count;
        }
        let mut done = 0;
        let mut events = Vec::with_capacity(self.sockets.len());
        loop {
            let now = Instant::now();
            let is_over = now - begun >= duration;
            let mut pause = Duration::from_millis(100);
            for (index, socket) in self.sockets.iter_mut().enumerate() {
                if socket.is_waiting || is_over {
                    continue;
                }
                match socket.due.checked_duration_since(now).filter(|left| !left.is_zero()) {
                    Some(left) => pause = pause.min(left),
                    None => {
                        let number = socket.sent;
                        socket.send(next(index, number))?;
                        // A late one is not followed by a burst.
                        socket.due = (socket.due + interval).max(now);
                    }
                }
            }
            if is_over && self.sockets.iter().all(|socket| !socket.is_waiting) {
                return Ok(done);
            }
            let pause = Timespec::try_from(pause)?;
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&pause))?;
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64())?;
                done += usize::from(self.sockets[index].receive()?);
            }
        }
    }
}

impl Socket {
    fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.is_waiting = true;
        self.sent += 1;
        // A small request fits an empty socket buffer, so this never blocks.
        self.stream.write_all(request).context("cannot send a request")
    }

    /// Reads once. Returns whether that completed a response.
    fn receive(&mut self) -> anyhow::Result<bool> {
        if self.filled == self.received.len() {
            self.received.resize(2 * self.filled, 0);
        }
        match self.stream.read(&mut self.received[self.filled..]) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("cannot read a response"),
        }
        let received = &self.received[..self.filled];
        let Some(response) = Response::decode(received)? else { return Ok(false) };
        let is_good = response.status == 200
            && memchr::memmem::find(response.message()?, b"\"result\"").is_some();
        ensure!(is_good, "a request was answered {}", excerpt(received));
        (self.filled, self.is_waiting) = (0, false);
        Ok(true)
    }
}
