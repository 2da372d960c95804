//! Who wants to hear of changes of which resource: one registry behind both eras (C-34).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::builder::Server;
use crate::connection::Shared;

/// Connections by the URIs they have subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    by_uri: Mutex<HashMap<Arc<str>, Vec<Weak<Shared>>>>,
}

impl Subscribers {
    fn add(&self, uri: &Arc<str>, connection: Weak<Shared>) {
        self.by_uri().entry(uri.clone()).or_default().push(connection);
    }

    fn remove(&self, uri: &Arc<str>, connection: &Weak<Shared>) {
        let mut by_uri = self.by_uri();
        let Some(connections) = by_uri.get_mut(uri) else { return };
        if let Some(index) = connections.iter().position(|other| other.ptr_eq(connection)) {
            connections.swap_remove(index);
        }
        if connections.is_empty() {
            by_uri.remove(uri);
        }
    }

    /// Tells all who have subscribed to a resource that it has changed.
    pub(crate) fn tell(&self, uri: &str) {
        let found = {
            let by_uri = self.by_uri();
            let Some((uri, connections)) = by_uri.get_key_value(uri) else { return };
            let connections: Vec<_> = connections.iter().filter_map(Weak::upgrade).collect();
            (uri.clone(), connections)
        };
        // Not under the lock: the last owner of a connection may be the one held here.
        let (uri, connections) = found;
        connections.iter().for_each(|connection| connection.note_update(&uri));
    }

    fn by_uri(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Weak<Shared>>>> {
        self.by_uri.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's wish to hear of one resource, for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Subscription {
    uri: Arc<str>,
    connection: Weak<Shared>,
    server: Server,
    /// Where on disk the resource is watched.
    files: Vec<PathBuf>,
}

impl Subscription {
    pub(super) fn new(
        server: Server,
        uri: Arc<str>,
        connection: Weak<Shared>,
        files: Vec<PathBuf>,
    ) -> Self {
        server.catalog().subscribers().add(&uri, connection.clone());
        Self { uri, connection, server, files }
    }

    pub(crate) fn uri(&self) -> &Arc<str> {
        &self.uri
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let catalog = self.server.catalog();
        catalog.subscribers().remove(&self.uri, &self.connection);
        if let Some(watch) = catalog.running_watch() {
            self.files.iter().for_each(|file| watch.release(file, &self.uri));
        }
    }
}
