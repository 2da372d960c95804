//! MCP client: connect, list, call, read, run flows.
//!
//! ```no_run
//! # async fn example() -> Result<(), mcp_flow::client::Error> {
//! use mcp_flow::client;
//! use serde_json::json;
//!
//! let client = client::connect("http://127.0.0.1:4433/mcp").await?;
//! for tool in client.tools().all().await? {
//!     eprintln!("{}", client::sanitize::line(&tool.name));
//! }
//! let sum = client.call_tool("calculator.add", json!({"a": 2, "b": 3})).await?;
//! assert_eq!(sum.text(), "5");
//! # Ok(())
//! # }
//! ```
//!
//! Connect by URL ([`connect`], [`connector`]), by spawning a command ([`Program`]), over WebTransport
//! with its own options ([`webtransport::client::server`](mcp_flow_webtransport::client::server)), over
//! a pair of streams ([`attach`]), or in the same process ([`in_process`]). URLs need the feature
//! `http`, those of WebTransport also `webtransport`.

#[cfg(feature = "http")]
mod chat;
#[cfg(feature = "http")]
mod target;

#[cfg(feature = "http")]
pub use chat::ChatModel;
pub use mcp_flow_client::*;
#[cfg(feature = "http")]
pub use mcp_flow_http::client::{BadTarget, HttpOptions, Trust};
pub use mcp_flow_stdio::client::{CommandModel, Program, Stderr, attach, in_process, tcp, unix};
#[cfg(feature = "http")]
pub use target::{connect, connector};
