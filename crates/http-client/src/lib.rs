//! The HTTP client transports: Streamable HTTP of both eras, legacy HTTP+SSE, WebSocket.
//!
//! [`server`] returns the [`Connector`] for a URL. `streamable`, `legacy_sse` and `websocket` are the
//! transports; `pool` sends their requests over pooled connections that `dialer` opens. [`Fetch`] and
//! [`JsonEndpoint`] send plain requests, for OAuth and key sets. This crate knows neither MCP methods
//! nor servers.

mod address_zone;
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

pub use address_zone::AddressZone;
pub use dialer::{Dialer, HttpStream};
pub use fetch::{Fetch, FetchError, StreamedResponse};
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
    /// Index in [`USUAL_ENDPOINTS`] of the one that is tried, for a URL without a path.
    guess: Option<usize>,
}

/// Endpoints that are tried in turn for a URL without a path.
const USUAL_ENDPOINTS: [(&str, HttpTransport); 4] = [
    ("/mcp", HttpTransport::Streamable),
    ("/", HttpTransport::Streamable),
    ("/sse", HttpTransport::LegacySse),
    ("/", HttpTransport::LegacySse),
];

/// Creates a connector for a URL.
///
/// `http(s)://…` is tried as Streamable HTTP, then as legacy HTTP+SSE. For a URL without a path, that
/// is tried at `/mcp`, `/` and `/sse`. `…/sse` is legacy HTTP+SSE, `ws(s)://…` is WebSocket.
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
    let is_guessed = transport == HttpTransport::Streamable && parsed.path() == "/";
    let server = HttpServer { target: url.to_owned(), url: parsed, transport, pool, guess: None };
    Ok(match is_guessed {
        true => server.guess(0).unwrap_or(server),
        false => server,
    })
}

impl HttpServer {
    /// Returns the URL of the server.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns a connector to one of the usual endpoints.
    fn guess(&self, index: usize) -> Option<Self> {
        let (path, transport) = *USUAL_ENDPOINTS.get(index)?;
        let mut url = self.url.clone();
        url.set_path(path);
        Some(Self { url, transport, guess: Some(index), ..self.clone() })
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
        if let Some(guess) = self.guess {
            return Some(Arc::new(self.guess(guess + 1)?));
        }
        if self.transport != HttpTransport::Streamable {
            return None;
        }
        Some(Arc::new(Self { transport: HttpTransport::LegacySse, ..self.clone() }))
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let (pool, url) = (self.pool.clone(), self.url.clone());
            Ok(match self.transport {
                HttpTransport::Streamable => {
                    streamable::open(pool, url, inbox, self.guess.is_some())
                }
                HttpTransport::LegacySse => legacy_sse::open(pool, url, inbox).await?,
                HttpTransport::WebSocket => websocket::open(&pool, &url, inbox).await?,
            })
        })
    }
}
