//! Several nodes that serve the same sessions: requests for what another node holds are forwarded to
//! it, once, and sessions of a node that is gone are adopted.
//!
//! [`ClusterNodes`] is what the embedding program knows of the nodes. `credential` authenticates
//! requests between them, `relay` forwards them, `session_record` is what a node needs to adopt a
//! session. Which node holds a session or a download is in its id: `EPOCH.RANDOM`.

pub(crate) mod credential;
pub(crate) mod relay;
pub(crate) mod session_record;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::{Request, Response};
use mcp_flow_seal::KeyRing;

use crate::transport::sessions::new_id;

/// The nodes of a cluster, as HTTP transports use them. A node is named by its epoch, which no other
/// node has had before.
pub trait ClusterNodes: fmt::Debug + Send + Sync + 'static {
    /// Returns the epoch of this node; none while it cannot be sure to be a member.
    fn epoch(&self) -> Option<u64>;

    /// Returns whether a node was alive not long ago, and its URL if it has one.
    fn find(&self, epoch: u64) -> Option<NodeUrl>;

    /// Asks whether a node is alive now.
    fn is_alive(&self, epoch: u64) -> ClusterFuture<'_, io::Result<bool>>;

    /// Sends a request to a URL of another node, and returns the response once its head has arrived.
    fn send(&self, request: NodeRequest) -> ClusterFuture<'_, Result<RelayedResponse, NotSent>>;

    /// Returns the keys that all nodes share.
    fn keys(&self) -> &KeyRing;

    /// Reads a record that all nodes share: its holder, or 0 if nobody holds it, and its value.
    fn record(&self, key: &str) -> ClusterFuture<'_, io::Result<Option<NodeRecord>>>;

    /// Changes a record if its holder is `from`, or if there is none. Returns whether it was.
    fn change_record(
        &self,
        key: &str,
        from: Option<u64>,
        record: Option<NodeRecord>,
        lifetime: Duration,
    ) -> ClusterFuture<'_, io::Result<bool>>;
}

/// Future of a cluster.
pub type ClusterFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Record that all nodes share: the epoch of its holder, or 0, and its value.
pub(crate) type NodeRecord = (u64, Vec<u8>);

/// Request to another node.
pub type NodeRequest = Request<Bytes>;

/// Response of another node, whose body is read in pieces.
pub type RelayedResponse = Response<Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>>;

/// URL of a node, if the others can reach it.
pub type NodeUrl = Option<String>;

/// A request that another node did not answer.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct NotSent {
    /// Set if nothing was sent, so that it can be tried elsewhere.
    pub is_unsent: bool,
    /// Reason, for logs.
    pub reason: String,
}

/// Creates an unguessable id that names the node that holds it.
pub(crate) fn new_node_id(cluster: Option<&dyn ClusterNodes>) -> String {
    match cluster.and_then(ClusterNodes::epoch) {
        Some(epoch) => format!("{epoch}.{}", new_id()),
        None => new_id(),
    }
}

/// Returns the epoch of the node that created an id.
pub(crate) fn epoch_of(id: &str) -> Option<u64> {
    let (epoch, random) = id.split_once('.')?;
    let is_random = random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    epoch.parse().ok().filter(|epoch| is_random && *epoch > 0)
}

#[cfg(test)]
mod tests {
    use super::epoch_of;

    #[test]
    fn ids_name_their_node() {
        let random = "0123456789abcdef0123456789abcdef";
        for (id, epoch) in [
            (format!("12.{random}"), Some(12)),
            (random.to_owned(), None),
            (format!("0.{random}"), None),
            (format!("-1.{random}"), None),
            (format!("x.{random}"), None),
            (format!("7.{random}0"), None),
            ("7.".to_owned(), None),
            (format!("99999999999999999999999.{random}"), None),
        ] {
            assert_eq!(epoch_of(&id), epoch, "{id}");
        }
    }
}
