//! Serves handlers of rmcp, the official Rust SDK, by every transport of MCP Flow.
//!
//! A handler stays as it is. It gets what a server of MCP Flow has: all revisions and transports,
//! limits on what a client may send and hold, identity, permissions, metrics and the console.
//!
//! ```
//! use mcp_flow_rmcp::adapt;
//! use rmcp::handler::server::wrapper::Parameters;
//! use rmcp::{schemars, tool, tool_router};
//!
//! struct Greeter;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Name {
//!     name: String,
//! }
//!
//! #[tool_router(server_handler)]
//! impl Greeter {
//!     #[tool(description = "Greets somebody")]
//!     fn greet(&self, Parameters(Name { name }): Parameters<Name>) -> String {
//!         format!("Hello, {name}")
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let adapted = adapt(|| Greeter).await?;
//! let bound = mcp_flow::http::bind("127.0.0.1:0".parse()?).await?;
//! # let stop = std::future::ready(());
//! bound.serve(adapted.server(), stop).await;
//! # Ok(())
//! # }
//! ```
//!
//! [`adapt`] makes a server of its own. It speaks 2025-11-25 with the handler, so that the handler can
//! ask, and every revision with clients. To serve handlers next to other servers, or with another
//! revision, give their [`connector`] to a [`Gateway`].
//!
//! Every session of a client has a handler of its own, as in rmcp's own Streamable HTTP service. Clients
//! without sessions share one for each principal. Messages cross an in-memory pipe, so a call costs
//! what it costs over stdio with rmcp, and a relay; `benches` measures that as `gateway`.

mod service;

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::RevisionPolicy;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_gateway::{Gateway, Isolation, UpstreamSettings};
use mcp_flow_proto::Revision;
use mcp_flow_server::{BuildError, Server, ServerBuilder};
use rmcp::{ServerHandler, ServiceExt as _};

use service::Contained;

/// Makes a server of a handler of rmcp.
///
/// `make` is called for every session. The server introduces itself as the handler does.
pub async fn adapt<H: ServerHandler>(
    make: impl Fn() -> H + Send + Sync + 'static,
) -> Result<Adapted, BuildError> {
    adapt_with(make, |server| server).await
}

/// Makes a server of a handler of rmcp, with more than the handler has: other tools, limits,
/// permissions.
pub async fn adapt_with<H: ServerHandler>(
    make: impl Fn() -> H + Send + Sync + 'static,
    extend: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Result<Adapted, BuildError> {
    let mut upstream = UpstreamSettings::new("server", Arc::new(connector(make)));
    upstream.isolation = Isolation::Session;
    // The newest in which a handler can ask its client, which is what handlers of rmcp do.
    upstream.revision = RevisionPolicy::Only(Revision::V2025_11_25);
    let relay = Gateway::relay(upstream, |_| ()).await;
    let (gateway, builder) = relay.expect("the name of the only upstream is valid");
    let server = extend(builder).build()?;
    gateway.attach(&server);
    Ok(Adapted { server, gateway })
}

/// A server of MCP Flow that relays to handlers of rmcp, as long as this value lives.
#[derive(Debug)]
pub struct Adapted {
    server: Server,
    gateway: Gateway,
}

impl Adapted {
    /// Returns the server, for the transports.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the gateway, which knows what the handlers do.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Ends all handlers, gracefully.
    pub async fn close(&self) {
        self.gateway.close().await;
    }
}

/// Returns a connector to handlers of rmcp. Every connection has a handler of its own.
pub fn connector<H, F>(make: F) -> HandlerConnector<F>
where
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    HandlerConnector { make }
}

/// A connector to handlers of rmcp in this process.
pub struct HandlerConnector<F> {
    make: F,
}

impl<H, F> Connector for HandlerConnector<F>
where
    H: ServerHandler,
    F: Fn() -> H + Send + Sync + 'static,
{
    fn target(&self) -> &str {
        "a handler of rmcp"
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        let handler = (self.make)();
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(async move {
                let served = match Contained(handler).serve(tokio::io::split(theirs)).await {
                    Ok(service) => service.waiting().await.map(drop).map_err(|end| end.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(error) = served {
                    tracing::debug!(%error, "a handler of rmcp has ended");
                }
            });
            let (reader, writer) = tokio::io::split(ours);
            mcp_flow_stdio::client::attach(reader, writer).connect(inbox).await
        })
    }
}

impl<F> fmt::Debug for HandlerConnector<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HandlerConnector").finish_non_exhaustive()
    }
}

/// Size of the pipe between a handler and its connection, in bytes.
const PIPE_BYTES: usize = 64 * 1024;
