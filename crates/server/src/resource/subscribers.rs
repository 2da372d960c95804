//! Who wants to hear of changes of which resource: one registry behind both eras (C-34).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::WatchGuard;
use crate::connection::Shared;
use crate::server::Server;

/// Connections by the URIs they have subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_uri: HashMap<Arc<str>, Vec<Weak<Shared>>>,
    count: usize,
}

impl Subscribers {
    /// Adds one, unless there are too many.
    fn add(&self, uri: &Arc<str>, connection: Weak<Shared>) -> bool {
        let mut known = self.known();
        let has_room = known.count < MOST;
        if has_room {
            known.count += 1;
            known.by_uri.entry(uri.clone()).or_default().push(connection);
        }
        has_room
    }

    fn remove(&self, uri: &Arc<str>, connection: &Weak<Shared>) {
        let mut known = self.known();
        let Some(connections) = known.by_uri.get_mut(uri) else { return };
        let index = connections.iter().position(|other| other.ptr_eq(connection));
        let Some(index) = index else { return };
        connections.swap_remove(index);
        if connections.is_empty() {
            known.by_uri.remove(uri);
        }
        known.count -= 1;
    }

    /// Tells all who have subscribed to a resource that it has changed.
    pub(crate) fn tell(&self, uri: &str) {
        let found = {
            let known = self.known();
            let Some((uri, connections)) = known.by_uri.get_key_value(uri) else { return };
            let connections: Vec<_> = connections.iter().filter_map(Weak::upgrade).collect();
            (uri.clone(), connections)
        };
        // Not under the lock: the last owner of a connection may be the one held here.
        let (uri, connections) = found;
        connections.iter().for_each(|connection| connection.note_update(&uri));
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's wish to hear of one resource, for as long as this is kept.
pub(crate) struct Subscription {
    uri: Arc<str>,
    connection: Weak<Shared>,
    server: Server,
    /// Keeps the resource watched, if a provider has it.
    watched: Option<WatchGuard>,
}

impl Subscription {
    /// Begins one; `None` if the server has too many.
    pub(super) fn new(server: Server, uri: Arc<str>, connection: Weak<Shared>) -> Option<Self> {
        let added = server.catalog().subscribers().add(&uri, connection.clone());
        added.then_some(Self { uri, connection, server, watched: None })
    }

    /// Keeps the resource watched for as long as the subscription is kept.
    pub(super) fn watched_by(mut self, guard: WatchGuard) -> Self {
        self.watched = Some(guard);
        self
    }

    pub(crate) fn uri(&self) -> &Arc<str> {
        &self.uri
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.server.catalog().subscribers().remove(&self.uri, &self.connection);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Subscription({})", self.uri)
    }
}

/// For the whole server: a client may come over many connections.
const MOST: usize = 250_000;
