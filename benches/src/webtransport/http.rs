//! The same file from the same server over HTTP/1.1 and HTTP/2, encrypted as QUIC is.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
    header,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream, rustls::version::TLS13};

use super::identity::Identity;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Version {
    Http1,
    Http2,
}

/// The link to the file, and the TLS configuration.
pub(super) struct Downloads<'a> {
    server: SocketAddr,
    identity: &'a Identity,
    path: String,
}

impl<'a> Downloads<'a> {
    /// Asks for a link to the file.
    pub(super) async fn of(
        server: SocketAddr,
        identity: &'a Identity,
        file: &str,
    ) -> anyhow::Result<Self> {
        let mut this = Self { server, identity, path: String::new() };
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "read_file", "arguments": {"path": file}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }},
        });
        let request = Request::post(this.url("/mcp"))
            .header(header::HOST, server.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", "tools/call")
            .header("Mcp-Name", "read_file")
            .body(Full::from(body.to_string()))?;
        let answer = this.send(Version::Http1, request).await?.collect().await?.to_bytes();
        let reply: Value = serde_json::from_slice(&answer).context("no JSON came")?;
        let link = reply["result"]["content"][0]["uri"].as_str();
        let link = link.with_context(|| format!("no link came: {reply}"))?;
        let path = link.find("/download/").with_context(|| format!("{link} is no link"))?;
        link[path..].clone_into(&mut this.path);
        Ok(this)
    }

    /// Downloads the file and returns the megabytes per second.
    pub(super) async fn fetch(&self, version: Version, bytes: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        let mut request = Request::get(self.url(&self.path));
        if version == Version::Http1 {
            request = request.header(header::HOST, self.server.to_string());
        }
        let response = self.send(version, request.body(Full::default())?).await?;
        ensure!(response.status().is_success(), "the file was answered with {}", response.status());
        let (mut body, mut received) = (response.into_body(), 0);
        while let Some(frame) = body.frame().await {
            received += frame?.data_ref().map_or(0, |data| data.len() as u64);
        }
        ensure!(received == bytes, "{received} bytes came instead of {bytes}");
        Ok(received as f64 / 1e6 / start.elapsed().as_secs_f64())
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.server)
    }

    async fn send(
        &self,
        version: Version,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Response<Incoming>> {
        let io = TokioIo::new(self.connect(version).await?);
        // A connection drives itself until its one response was read.
        match version {
            Version::Http1 => {
                let (mut sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Ok(sender.send_request(request).await?)
            }
            Version::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                // The window of a browser, instead of the 64 KB the protocol begins with.
                builder
                    .initial_stream_window_size(6 << 20)
                    .initial_connection_window_size(15 << 20);
                let (mut sender, connection) = builder.handshake(io).await?;
                tokio::spawn(connection);
                Ok(sender.send_request(request).await?)
            }
        }
    }

    async fn connect(&self, version: Version) -> anyhow::Result<TlsStream<TcpStream>> {
        let mut tls = self.identity.client(&[&TLS13])?;
        let alpn: &[u8] = if version == Version::Http1 { b"http/1.1" } else { b"h2" };
        tls.alpn_protocols = vec![alpn.to_vec()];
        let socket = TcpStream::connect(self.server).await?;
        socket.set_nodelay(true)?;
        let name = self.server.ip().to_string().try_into()?;
        Ok(TlsConnector::from(Arc::new(tls)).connect(name, socket).await?)
    }
}
