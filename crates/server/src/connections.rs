//! The connections of a server whose clients may want to be told of changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mcp_flow_proto::model::Topics;

// Addresses are our own, so this map needs no defence against chosen keys.
use hashbrown::HashMap;

use crate::connection::Shared;
use crate::permissions::Kind;

/// Those that may want to know, each until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// By the address of what they share, which no two have at the same time.
    open: Mutex<HashMap<usize, Weak<Shared>>>,
}

/// What has changed.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) topics: Topics,
    /// Which of what kind, if it concerns only those who may see it; no names mean any.
    pub(crate) names: Option<(Kind, Vec<&'a str>)>,
}

impl Connections {
    pub(crate) fn add(&self, connection: &Arc<Shared>) {
        self.open().insert(Arc::as_ptr(connection).addr(), Arc::downgrade(connection));
    }

    pub(crate) fn remove(&self, connection: &Arc<Shared>) {
        self.open().remove(&Arc::as_ptr(connection).addr());
    }

    /// Tells all of them that something has changed, who may see what it was.
    pub(crate) fn announce(&self, change: &Change<'_>) {
        let all: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        // Not under the lock: the last owner of a connection may be the one held here.
        for connection in all {
            let may_see = |(kind, names): &(Kind, Vec<&str>)| match names.is_empty() {
                true => connection.may_any(*kind),
                false => names.iter().any(|name| connection.may(*kind, name)),
            };
            if change.names.as_ref().is_none_or(may_see) {
                connection.note_change(change.topics);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Weak<Shared>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConnectionInfo, Server};

    /// MCP-030: a connection is forgotten however it ends.
    #[tokio::test]
    async fn whoever_is_gone_is_forgotten() {
        let server = Server::builder("test", "1").build().unwrap();
        let hello = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
            "protocolVersion":"2025-11-25","capabilities":{}}}"#;
        for is_closed in [true, false] {
            let connection = server.connect(ConnectionInfo::new("test")).unwrap();
            connection.receive(hello);
            assert_eq!(server.connections().open().len(), 1);
            match is_closed {
                true => connection.close().await,
                false => drop(connection),
            }
            assert_eq!(server.connections().open().len(), 0, "closed: {is_closed}");
        }
    }
}
