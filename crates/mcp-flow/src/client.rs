//! A client of any server: connect, list, call, read, converse.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_flow::client::Error> {
//! use mcp_flow::client;
//! use serde_json::json;
//!
//! let client = client::connect("http://127.0.0.1:4433/mcp").await?;
//! for tool in client.tools().all().await? {
//!     eprintln!("{}", client::neutral::line(&tool.name));
//! }
//! let sum = client.call_tool("calculator.add", json!({"a": 2, "b": 3})).await?;
//! assert_eq!(sum.text(), "5");
//! # Ok(())
//! # }
//! ```
//!
//! A server is found by its URL ([`connect`], [`connector`]), by a command that is spawned
//! ([`Program`]), by WebTransport with what only that has
//! ([`webtransport::client::server`](mcp_flow_webtransport::client::server)), at the other end of streams ([`attach`]), or in the same process
//! ([`in_process`]).

use std::path::Path;
use std::sync::Arc;

use mcp_flow_webtransport::client as webtransport;

use crate::client::transport::Connector;

pub use mcp_flow_client::*;
pub use mcp_flow_http::client::{BadTarget, ChatModel, HttpOptions, Trust};
pub use mcp_flow_stdio::client::{CommandModel, Program, Stderr, attach, in_process, tcp, unix};

/// Connects to the server at a URL, with the usual options. See [`connector`] for which there are.
pub async fn connect(target: &str) -> Result<Client, Error> {
    let connector = connector(target, &HttpOptions::new());
    let connector = connector.map_err(|bad| Error::Usage(bad.to_string()))?;
    Client::builder().connect_by(connector).await
}

/// What reaches the server at a URL:
///
/// | URL | how |
/// |---|---|
/// | `http(s)://…` | Streamable HTTP, or HTTP+SSE if the server speaks only that |
/// | `http(s)://…/sse` | HTTP+SSE |
/// | `https://…/mcp-flow` | WebTransport |
/// | `ws(s)://…` | WebSocket |
/// | `tcp://HOST:PORT` | lines over TCP |
/// | `unix:PATH` | lines over a Unix socket |
///
/// ```
/// use mcp_flow::client::{HttpOptions, connector};
///
/// assert!(connector("https://a.example/mcp", &HttpOptions::new()).is_ok());
/// assert!(connector("https://a.example/mcp-flow", &HttpOptions::new()).is_ok());
/// assert!(connector("gopher://a.example", &HttpOptions::new()).is_err());
/// ```
pub fn connector(target: &str, options: &HttpOptions) -> Result<Arc<dyn Connector>, BadTarget> {
    if let Some(path) = target.strip_prefix("unix:") {
        return Ok(Arc::new(unix(Path::new(path.trim_start_matches("//")))));
    }
    if let Some(address) = target.strip_prefix("tcp://") {
        let address = address.trim_end_matches('/').parse();
        let address = address.map_err(|_| {
            BadTarget::new(format!("{target:?}: write tcp:// with an IP address and a port"))
        })?;
        return Ok(Arc::new(tcp(address)));
    }
    let http = mcp_flow_http::client::server(target, options)?;
    match http.url().scheme() == "https" && http.url().path() == mcp_flow_webtransport::PATH {
        true => {
            let mut settings = webtransport::Settings::new(options.trusted().clone());
            settings.headers = options.headers().clone();
            settings.authorizer = options.authorized_by().cloned();
            Ok(Arc::new(webtransport::server(target, settings)))
        }
        false => Ok(Arc::new(http)),
    }
}
