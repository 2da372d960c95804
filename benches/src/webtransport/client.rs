//! A client of either server: MCP Flow over WebTransport, or quinn alone.
//!
//! The same code sends, reads and counts for both, so that only the server differs.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use memchr::memmem;
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};
use tokio_rustls::rustls::version::TLS13;
use url::Url;
use web_transport_quinn::{
    ALPN, RecvStream, SendStream, Session, quinn,
    quinn::{Endpoint, crypto::rustls::QuicClientConfig},
};

use super::identity::Identity;
use crate::servers::quinn::{self as reference, take_frame};

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    McpFlow,
    Quinn,
}

/// Creates connections from one socket.
pub(super) struct Dialer {
    kind: Kind,
    server: SocketAddr,
    endpoint: Endpoint,
    config: quinn::ClientConfig,
}

impl Dialer {
    pub(super) fn new(kind: Kind, server: SocketAddr, identity: &Identity) -> anyhow::Result<Self> {
        let alpn = if kind == Kind::Quinn { reference::ALPN } else { ALPN.as_bytes() };
        let mut tls = identity.client(&[&TLS13])?;
        tls.alpn_protocols = vec![alpn.to_vec()];
        let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(Arc::new(reference::client_transport()));
        Ok(Self { kind, server, endpoint: reference::endpoint(None)?, config })
    }

    /// Connects and performs the handshake.
    pub(super) async fn connect(&self) -> anyhow::Result<Client> {
        let connected = timeout(TIMEOUT, self.dial());
        connected.await.context("no connection in time")?.context("cannot connect")
    }

    async fn dial(&self) -> anyhow::Result<Client> {
        let session = match self.kind {
            Kind::Quinn => {
                let connecting =
                    self.endpoint.connect_with(self.config.clone(), self.server, "localhost")?;
                Session::raw(connecting.await?)
            }
            Kind::McpFlow => {
                let client =
                    web_transport_quinn::Client::new(self.endpoint.clone(), self.config.clone());
                let url = format!("https://{}/mcp-flow", self.server);
                client.connect(url.parse::<Url>()?).await?
            }
        };
        let (requests, replies) = session.open_bi().await?;
        let kind = self.kind;
        let mut client =
            Client { kind, session, requests, replies, received: BytesMut::new(), number: 0 };
        if kind == Kind::McpFlow {
            client.shake_hands().await?;
        }
        Ok(client)
    }
}

/// One connection.
pub(super) struct Client {
    kind: Kind,
    pub(super) session: Session,
    requests: SendStream,
    replies: RecvStream,
    received: BytesMut,
    number: u64,
}

impl Client {
    async fn shake_hands(&mut self) -> anyhow::Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "mcp-flow-benches", "version": env!("CARGO_PKG_VERSION")},
            "transport": {"type": "mcp-flow", "version": "0.1", "encodings": ["json"]},
        });
        let reply = self.ask("initialize", params).await?;
        ensure!(reply["result"]["transport"]["encoding"] == "json", "initialize gave {reply}");
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
            .await
    }

    /// Sends a request and returns its reply. Other replies are dropped.
    pub(super) async fn ask(&mut self, method: &str, params: Value) -> anyhow::Result<Value> {
        let id = self.request(method, params).await?;
        loop {
            let frame = self.next_frame().await?;
            if id_of(&frame) == Some(id) {
                return Ok(serde_json::from_slice(&frame[4..])?);
            }
        }
    }

    async fn request(&mut self, method: &str, params: Value) -> anyhow::Result<u64> {
        self.number += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params});
        self.send(request.to_string()).await?;
        Ok(self.number)
    }

    async fn send(&mut self, body: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let mut frame = BytesMut::new();
        put_frame(&mut frame, body.as_ref());
        Ok(self.requests.write_chunk(frame.freeze()).await?)
    }

    /// Returns the pings answered per second, with a number of them in flight.
    pub(super) async fn pings_per_second(
        &mut self,
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<f64> {
        let start = Instant::now();
        let (mut open, mut answered) = (0, 0_u64);
        loop {
            let is_over = start.elapsed() > time;
            let mut requests = BytesMut::new();
            while open < in_flight && !is_over {
                self.number += 1;
                put_frame(&mut requests, ping(self.number).as_bytes());
                open += 1;
            }
            if !requests.is_empty() {
                self.requests.write_chunk(requests.freeze()).await?;
            }
            if open == 0 {
                return Ok(answered as f64 / start.elapsed().as_secs_f64());
            }
            self.read_more().await?;
            while let Some(frame) = take_frame(&mut self.received) {
                ensure!(id_of(&frame).is_some(), "a ping was answered with {frame:?}");
                open -= 1;
                answered += 1;
            }
        }
    }

    /// Returns the latency of one ping.
    pub(super) async fn ping(&mut self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        self.number += 1;
        let id = self.number;
        self.send(ping(id)).await?;
        while id_of(&self.next_frame().await?) != Some(id) {}
        Ok(start.elapsed())
    }

    /// Downloads the file several times concurrently. Returns the total megabytes per second.
    pub(super) async fn download(
        &mut self,
        file: &str,
        bytes: u64,
        streams: usize,
    ) -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..streams {
            self.ask_for(file).await?;
        }
        let mut readers = self.readers(streams, bytes);
        while let Some(read) = readers.join_next().await {
            read??;
        }
        Ok(bytes as f64 * streams as f64 / 1e6 / start.elapsed().as_secs_f64())
    }

    /// Downloads the file and measures pings meanwhile.
    pub(super) async fn pings_while_downloading(
        &mut self,
        file: &str,
        bytes: u64,
    ) -> anyhow::Result<Vec<Duration>> {
        self.ask_for(file).await?;
        let mut readers = self.readers(1, bytes);
        let mut pings = Vec::new();
        loop {
            pings.push(self.ping().await?);
            if let Some(read) = readers.try_join_next() {
                read??;
                return Ok(pings);
            }
            tokio::time::sleep(BETWEEN_PINGS).await;
        }
    }

    /// Sends datagrams as fast as they are accepted. Returns the number per second the server has
    /// read, confirmed by a ping sent after them.
    pub(super) async fn datagrams_per_second(&mut self, time: Duration) -> anyhow::Result<f64> {
        let (start, before) =
            (Instant::now(), quinn::Connection::stats(&self.session).path.lost_packets);
        let datagram = Bytes::from_static(&[0; DATAGRAM]);
        let mut sent = 0_u64;
        while start.elapsed() < time {
            self.session.send_datagram_wait(datagram.clone()).await?;
            sent += 1;
        }
        self.ping().await?;
        let lost = quinn::Connection::stats(&self.session).path.lost_packets - before;
        Ok(sent.saturating_sub(lost) as f64 / start.elapsed().as_secs_f64())
    }

    /// Requests the file, which arrives on a stream of its own.
    pub(super) async fn ask_for(&mut self, file: &str) -> anyhow::Result<()> {
        match self.kind {
            Kind::Quinn => self.send(reference::SEND_FILE).await,
            Kind::McpFlow => {
                let params = json!({"name": "read_file", "arguments": {"path": file}});
                self.request("tools/call", params).await.map(drop)
            }
        }
    }

    fn readers(&self, streams: usize, bytes: u64) -> JoinSet<anyhow::Result<()>> {
        let mut readers = JoinSet::new();
        for _ in 0..streams {
            let session = self.session.clone();
            readers.spawn(async move {
                let stream = timeout(TIMEOUT, session.accept_uni()).await;
                let mut stream = stream.context("no stream was opened")??;
                let mut received = 0;
                while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
                    received += chunk.bytes.len() as u64;
                }
                // Eight bytes of header come first.
                ensure!(received == bytes + 8, "{received} bytes came instead of {bytes}");
                Ok(())
            });
        }
        readers
    }

    async fn next_frame(&mut self) -> anyhow::Result<Bytes> {
        loop {
            if let Some(frame) = take_frame(&mut self.received) {
                return Ok(frame);
            }
            self.read_more().await?;
        }
    }

    async fn read_more(&mut self) -> anyhow::Result<()> {
        let read = timeout(TIMEOUT, self.replies.read_chunk(usize::MAX, true));
        let Some(chunk) = read.await.context("the server does not answer")?? else {
            bail!("the server closed the stream for messages");
        };
        self.received.extend_from_slice(&chunk.bytes);
        Ok(())
    }
}

fn ping(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
}

fn put_frame(frames: &mut BytesMut, body: &[u8]) {
    let length = u32::try_from(body.len()).expect("requests are small");
    frames.extend_from_slice(&length.to_be_bytes());
    frames.extend_from_slice(body);
}

/// Finds the id without parsing the rest, which would cost more than some servers spend on it.
fn id_of(frame: &[u8]) -> Option<u64> {
    let at = memmem::find(frame, b"\"id\":")? + 5;
    let digits = frame[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&frame[at..at + digits]).ok()?.parse().ok()
}

/// A datagram of typical size, on an unused channel.
const DATAGRAM: usize = 1000;

/// Time limit for a server to answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Long enough that pings are not the server's main work.
const BETWEEN_PINGS: Duration = Duration::from_millis(1);
