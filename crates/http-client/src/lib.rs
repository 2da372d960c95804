//! The HTTP client transports: Streamable HTTP of both eras, legacy HTTP+SSE, WebSocket.
//!
//! [`server`] returns the [`Connector`] for a URL. `streamable`, `legacy_sse` and `websocket` are the
//! transports; `pool` sends their requests over pooled connections that `dialer` opens. [`Fetch`] and
//! [`JsonEndpoint`] send plain requests, for OAuth and key sets. This crate knows neither MCP methods
//! nor servers.

mod dialer;
mod event_decoder;
mod exchange;
mod fetch;
mod json_endpoint;
mod legacy_sse;
mod mirrored_headers;
mod options;
mod pool;
mod streamable;
mod websocket;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use url::Url;

pub use fetch::{Fetch, FetchError};
pub use json_endpoint::JsonEndpoint;
pub use mcp_flow_tls::Trust;
pub use options::{AllowedAddresses, HttpOptions};
use pool::Pool;

/// A URL or option that cannot be used to reach a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTarget(String);

impl BadTarget {
    /// Creates the error with a reason for people.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Transport that a server is reached over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpTransport {
    Streamable,
    LegacySse,
    WebSocket,
}

/// Connector to a server at an HTTP or WebSocket URL.
#[derive(Clone, Debug)]
pub struct HttpServer {
    target: String,
    url: Url,
    transport: HttpTransport,
    pool: Arc<Pool>,
}

/// Creates a connector for a URL.
///
/// `http(s)://…` is tried as Streamable HTTP, then at `/mcp` if the URL has no path, then as legacy
/// HTTP+SSE. `…/sse` is legacy HTTP+SSE, `ws(s)://…` is WebSocket.
pub fn server(url: &str, options: &HttpOptions) -> Result<HttpServer, BadTarget> {
    let parsed = Url::parse(url).map_err(|error| BadTarget(format!("{url:?}: {error}")))?;
    let transport = match parsed.scheme() {
        "http" | "https" if parsed.path().ends_with("/sse") => HttpTransport::LegacySse,
        "http" | "https" => HttpTransport::Streamable,
        "ws" | "wss" => HttpTransport::WebSocket,
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
    let pool = Arc::new(Pool::new(options)?);
    Ok(HttpServer { target: url.to_owned(), url: parsed, transport, pool })
}

impl HttpServer {
    /// Returns the URL of the server.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl Connector for HttpServer {
    fn target(&self) -> &str {
        &self.target
    }

    fn origin(&self) -> Option<String> {
        // One origin may serve both eras, at different paths.
        Some(self.url.to_string())
    }

    fn fallback(&self) -> Option<Arc<dyn Connector>> {
        if self.transport != HttpTransport::Streamable {
            return None;
        }
        // For a URL without a path, `/mcp` is the usual endpoint.
        if self.url.path() == "/" {
            let mut url = self.url.clone();
            url.set_path("/mcp");
            return Some(Arc::new(Self { url, ..self.clone() }));
        }
        let url = Url::parse(&self.target).ok()?;
        Some(Arc::new(Self { url, transport: HttpTransport::LegacySse, ..self.clone() }))
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let (pool, url) = (self.pool.clone(), self.url.clone());
            Ok(match self.transport {
                HttpTransport::Streamable => streamable::open(pool, url, inbox),
                HttpTransport::LegacySse => legacy_sse::open(pool, url, inbox).await?,
                HttpTransport::WebSocket => websocket::open(&pool, &url, inbox).await?,
            })
        })
    }
}
