//! The connections to notify of changes.

use std::sync::{Arc, Weak};

use mcp_flow_proto::model::Topics;
use parking_lot::{Mutex, MutexGuard};

// Addresses are chosen by this process, so the map needs no defence against crafted keys.
use hashbrown::HashMap;

use crate::connection::{ConnectionInner, subscriptions};
use crate::permissions::PermissionKind;

/// Connections that may want change notifications, each until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// By address, which is unique among live connections.
    open: Mutex<HashMap<usize, Weak<ConnectionInner>>>,
}

/// A change to announce.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) topics: Topics,
    /// The kind and names concerned, if only those who may see them are notified; an empty list
    /// means any name.
    pub(crate) names: Option<(PermissionKind, Vec<&'a str>)>,
}

impl Connections {
    pub(crate) fn add(&self, connection: &Arc<ConnectionInner>) {
        self.open().insert(Arc::as_ptr(connection).addr(), Arc::downgrade(connection));
    }

    pub(crate) fn remove(&self, connection: &Arc<ConnectionInner>) {
        self.open().remove(&Arc::as_ptr(connection).addr());
    }

    /// Announces a change to every connection whose principal may see it.
    pub(crate) fn announce(&self, change: &Change<'_>) {
        let all: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        // Not under the lock: this may be the last owner of a connection.
        for connection in all {
            let may_see = |(kind, names): &(PermissionKind, Vec<&str>)| match names.is_empty() {
                true => connection.may_any(*kind),
                false => names.iter().any(|name| connection.may(*kind, name)),
            };
            if change.names.as_ref().is_none_or(may_see) {
                subscriptions::record_change(&connection, change.topics);
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Weak<ConnectionInner>>> {
        self.open.lock()
    }
}

#[cfg(test)]
mod tests {
    use crate::{ConnectionInfo, Server};

    /// MCP-030: a connection is forgotten however it ends.
    #[tokio::test]
    async fn closed_connections_are_removed() {
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
