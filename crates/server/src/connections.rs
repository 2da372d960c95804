//! The connections of a server whose clients may want to be told of changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mcp_flow_proto::model::Topics;

// Addresses are our own, so this map needs no defence against chosen keys.
use hashbrown::HashMap;

use crate::connection::Shared;

/// Those that may want to know, each until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// By the address of what they share, which no two have at the same time.
    open: Mutex<HashMap<usize, Weak<Shared>>>,
}

impl Connections {
    pub(crate) fn add(&self, connection: &Arc<Shared>) {
        self.open().insert(Arc::as_ptr(connection).addr(), Arc::downgrade(connection));
    }

    pub(crate) fn remove(&self, connection: &Arc<Shared>) {
        self.open().remove(&Arc::as_ptr(connection).addr());
    }

    /// Tells all of them that something has changed.
    pub(crate) fn announce(&self, topics: Topics) {
        let all: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        // Not under the lock: the last owner of a connection may be the one held here.
        all.iter().for_each(|connection| connection.note_change(topics));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<usize, Weak<Shared>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
