//! Taps, which see every message of a server.

use mcp_flow_proto::Encoding;

/// Sees all messages of all connections; see [`ServerBuilder::tap`](crate::ServerBuilder::tap).
pub trait MessageTap: Send + Sync + 'static {
    /// Called with each message when it has been received, or is queued to be sent. Runs on the path
    /// of every message, under the lock that orders those that are sent, and must not block.
    fn message(&self, connection: u64, sender: MessageSender, encoding: Encoding, frame: &[u8]);
}

/// Sender of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSender {
    /// The client.
    Client,
    /// This server.
    Server,
}
