//! Taps, which see every message of a server, and the content beside them.

use std::sync::Arc;

use mcp_flow_proto::Encoding;

/// Sees all messages of all connections; see [`ServerBuilder::tap`](crate::ServerBuilder::tap).
pub trait MessageTap: Send + Sync + 'static {
    /// Called with each message when it has been received, or is queued to be sent. Runs on the path
    /// of every message, under the lock that orders those that are sent, and must not block.
    fn message(&self, connection: u64, sender: MessageSender, encoding: Encoding, frame: &[u8]);

    /// Called when content beside the messages begins to be sent, as a download or on a stream. What it
    /// returns sees the content; by default nothing does.
    fn content(&self, _connection: u64, _name: &str) -> Option<Box<dyn ContentTap>> {
        None
    }
}

/// Sees content that is sent beside the messages. Dropped at its end, or when it is abandoned.
pub trait ContentTap: Send + 'static {
    /// Called with each piece, in order.
    fn piece(&mut self, bytes: &[u8]);
}

/// The tap of a connection, for content.
#[derive(Clone)]
pub(crate) struct ConnectionTap {
    pub(crate) tap: Arc<dyn MessageTap>,
    pub(crate) connection: u64,
}

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSender {
    /// The client.
    Client,
    /// This server.
    Server,
}
