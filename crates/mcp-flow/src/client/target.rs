//! Connectors by URL.

use std::path::Path;
use std::sync::Arc;

use mcp_flow_client::transport::Connector;
use mcp_flow_client::{Client, Error};
use mcp_flow_http::client::{BadTarget, HttpOptions};
use mcp_flow_proto::webtransport::PATH as WEBTRANSPORT_PATH;
use mcp_flow_stdio::client::{tcp, unix};

/// Connects to the server at a URL with default options. [`connector`] lists the URL schemes.
pub async fn connect(target: &str) -> Result<Client, Error> {
    let connector = connector(target, &HttpOptions::new());
    let connector = connector.map_err(|bad| Error::Usage(bad.to_string()))?;
    Client::builder().connect_by(connector).await
}

/// Creates a connector for the server at a URL:
///
/// | URL | transport |
/// |---|---|
/// | `http(s)://…` | Streamable HTTP, or HTTP+SSE if the server supports only that |
/// | `http(s)://…/sse` | HTTP+SSE |
/// | `https://…/mcp-flow` | WebTransport |
/// | `ws(s)://…` | WebSocket |
/// | `tcp://HOST:PORT` | newline-delimited JSON over TCP |
/// | `unix:PATH` | newline-delimited JSON over a Unix socket |
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
            BadTarget::new(format!("{target:?}: expected tcp:// with an IP address and a port"))
        })?;
        return Ok(Arc::new(tcp(address)));
    }
    let http = mcp_flow_http::client::server(target, options)?;
    match http.url().scheme() == "https" && http.url().path() == WEBTRANSPORT_PATH {
        true => webtransport(target, options),
        false => Ok(Arc::new(http)),
    }
}

#[cfg(feature = "webtransport")]
fn webtransport(target: &str, options: &HttpOptions) -> Result<Arc<dyn Connector>, BadTarget> {
    use mcp_flow_webtransport::client::{ConnectSettings, server};

    let mut settings = ConnectSettings::new(options.trusted().clone());
    settings.headers = options.headers().clone();
    settings.authorizer = options.authorized_by().cloned();
    Ok(Arc::new(server(target, settings)))
}

#[cfg(not(feature = "webtransport"))]
fn webtransport(target: &str, _: &HttpOptions) -> Result<Arc<dyn Connector>, BadTarget> {
    Err(BadTarget::new(format!("{target:?}: enable the feature `webtransport` of mcp-flow")))
}
