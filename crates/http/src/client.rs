//! The client's end: Streamable HTTP of both eras, legacy HTTP+SSE, WebSocket.
//!
//! `wire` has the pool of connections and TLS, `events` reads server-sent events, `streamable`,
//! `legacy` and `websocket` are the transports, `mirror` the headers that repeat a message.

mod chat;
mod document;
mod events;
mod fetch;
mod legacy;
mod mirror;
mod options;
mod sending;
mod streamable;
mod websocket;
mod wire;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use url::Url;

pub use chat::ChatModel;
pub use document::Document;
pub use fetch::{Fetch, FetchError};
pub use mcp_flow_tls::Trust;
pub use options::{Addresses, HttpOptions};
use wire::Wire;

/// An address that cannot be one of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(String);

impl BadTarget {
    /// An address that cannot be one of a server, for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// How a server at a URL is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Streamable,
    Legacy,
    WebSocket,
}

/// A server at a URL.
#[derive(Clone, Debug)]
pub struct HttpServer {
    target: String,
    url: Url,
    manner: Manner,
    wire: Arc<Wire>,
}

/// Reaches the server at a URL: `http(s)://…` by Streamable HTTP, at `/mcp` if only a host is named
/// and its root does not speak that, and by legacy HTTP+SSE if neither does; `…/sse` by legacy HTTP+SSE right away; `ws(s)://…` by WebSocket.
pub fn server(url: &str, options: &HttpOptions) -> Result<HttpServer, BadTarget> {
    let parsed = Url::parse(url).map_err(|error| BadTarget(format!("{url:?}: {error}")))?;
    let manner = match parsed.scheme() {
        "http" | "https" if parsed.path().ends_with("/sse") => Manner::Legacy,
        "http" | "https" => Manner::Streamable,
        "ws" | "wss" => Manner::WebSocket,
        other => {
            let what = format!("{url:?}: use http, https, ws or wss instead of {other}");
            return Err(BadTarget(what));
        }
    };
    if parsed.host_str().is_none() {
        return Err(BadTarget(format!("{url:?} names no host")));
    }
    if !parsed.username().is_empty() || parsed.password().is_some() {
        let what = "an address does not hold a password; give it as a header or a bearer token";
        return Err(BadTarget(what.to_owned()));
    }
    let wire = Arc::new(Wire::new(options)?);
    Ok(HttpServer { target: url.to_owned(), url: parsed, manner, wire })
}

impl HttpServer {
    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl Connector for HttpServer {
    fn target(&self) -> &str {
        &self.target
    }

    fn origin(&self) -> Option<String> {
        // Two servers of one origin may be of two eras; the path tells them apart.
        Some(self.url.to_string())
    }

    fn fallback(&self) -> Option<Arc<dyn Connector>> {
        if self.manner != Manner::Streamable {
            return None;
        }
        // Whoever names a host alone means the server there, which as a rule is at `/mcp`.
        if self.url.path() == "/" {
            let mut url = self.url.clone();
            url.set_path("/mcp");
            return Some(Arc::new(Self { url, ..self.clone() }));
        }
        let url = Url::parse(&self.target).ok()?;
        Some(Arc::new(Self { url, manner: Manner::Legacy, ..self.clone() }))
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let (wire, url) = (self.wire.clone(), self.url.clone());
            Ok(match self.manner {
                Manner::Streamable => streamable::open(wire, url, inbox),
                Manner::Legacy => legacy::open(wire, url, inbox).await?,
                Manner::WebSocket => websocket::open(&wire, &url, inbox).await?,
            })
        })
    }
}
