//! Connection events, for a host application to observe and to veto.

use std::pin::Pin;
use std::time::Duration;

use mcp_flow_proto::RpcError;

use crate::connection::{ConnectionEnd, ConnectionInfo};
use crate::identity::Peer;

/// An event of a connection.
///
/// In order: `Connected`, then any number of the others, then `Closed`, exactly once each for
/// the first and the last.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionEvent<'a> {
    /// A transport accepted a connection. A veto rejects it before anything is read.
    Connected,
    /// A message arrived; responses have no method.
    Message {
        /// The method of a request or notification.
        method: Option<&'a str>,
    },
    /// The client sent a valid `initialize`. A veto rejects it with `ACCESS_DENIED`.
    Initialize(&'a Peer),
    /// The client sent `initialized`. A veto closes the connection.
    Initialized(&'a Peer),
    /// A message was answered with an error.
    Error(&'a RpcError),
    /// The connection has closed.
    Closed(ConnectionEnd),
}

/// Observes connection events; see [`ServerBuilder::hook`](crate::ServerBuilder::hook).
///
/// Hooks run on the path of every message and should return quickly. A veto of an event that cannot
/// be prevented is ignored.
pub trait Hook: Send + Sync + 'static {
    /// Called once for every event.
    fn on(&self, connection: &ConnectionInfo, event: &ConnectionEvent<'_>) -> Result<(), Veto>;
}

impl<F> Hook for F
where
    F: Fn(&ConnectionInfo, &ConnectionEvent<'_>) -> Result<(), Veto> + Send + Sync + 'static,
{
    fn on(&self, connection: &ConnectionInfo, event: &ConnectionEvent<'_>) -> Result<(), Veto> {
        self(connection, event)
    }
}

/// Ends work of a server in the time it is given; see
/// [`ServerBuilder::on_shutdown`](crate::ServerBuilder::on_shutdown).
pub(crate) type Shutdown =
    dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A hook's veto, with a reason the client may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {0}")]
pub struct Veto(pub String);
