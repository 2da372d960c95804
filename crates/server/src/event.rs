//! What happens to a connection, for a host application to watch and to stop.

use mcp_flow_proto::RpcError;

use crate::connection::{ConnectionInfo, Ended};
use crate::identity::Peer;

/// Something that happened on a connection.
///
/// In order: `Connected`, then any number of the others, then `Closed`, exactly once each for
/// the first and the last.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A transport has a connection. A veto refuses it before anything is read.
    Connected,
    /// A message came in, known so far by its method; responses have none.
    Message {
        /// The method of a request or notification.
        method: Option<&'a str>,
    },
    /// The client sent a good `initialize`. A veto answers it with `ACCESS_DENIED`.
    Initialize(&'a Peer),
    /// The client said it is ready. A veto ends the connection.
    Initialized(&'a Peer),
    /// A message could not be served and its sender is told so.
    Error(&'a RpcError),
    /// The connection is over.
    Closed(Ended),
}

/// Watches connections; see [`ServerBuilder::hook`](crate::ServerBuilder::hook).
///
/// Hooks run on the path of every message and should return quickly. A veto of an event that
/// cannot be stopped is ignored.
pub trait Hook: Send + Sync + 'static {
    /// Called once for every event.
    fn on(&self, connection: &ConnectionInfo, event: &Event<'_>) -> Result<(), Veto>;
}

impl<F> Hook for F
where
    F: Fn(&ConnectionInfo, &Event<'_>) -> Result<(), Veto> + Send + Sync + 'static,
{
    fn on(&self, connection: &ConnectionInfo, event: &Event<'_>) -> Result<(), Veto> {
        self(connection, event)
    }
}

/// A hook's refusal, with a reason the client may read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refused: {0}")]
pub struct Veto(pub String);
