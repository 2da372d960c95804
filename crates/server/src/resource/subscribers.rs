//! Registry of resource subscriptions, for handshake and stateless revisions (C-34).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use super::WatchGuard;
use crate::connection::{ConnectionInner, subscriptions};
use crate::server::Server;

/// Connections by the URIs they are subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    by_uri: HashMap<Arc<str>, Vec<Weak<ConnectionInner>>>,
    count: usize,
}

impl Subscribers {
    /// Adds one, unless there are too many.
    fn add(&self, uri: &Arc<str>, connection: Weak<ConnectionInner>) -> bool {
        let mut state = self.state();
        let has_room = state.count < MAX_COUNT;
        if has_room {
            state.count += 1;
            state.by_uri.entry(uri.clone()).or_default().push(connection);
        }
        has_room
    }

    fn remove(&self, uri: &Arc<str>, connection: &Weak<ConnectionInner>) {
        let mut state = self.state();
        let Some(connections) = state.by_uri.get_mut(uri) else { return };
        let index = connections.iter().position(|other| other.ptr_eq(connection));
        let Some(index) = index else { return };
        connections.swap_remove(index);
        if connections.is_empty() {
            state.by_uri.remove(uri);
        }
        state.count -= 1;
    }

    /// Notifies all subscribers of a resource that it has changed.
    pub(crate) fn notify(&self, uri: &str) {
        let (uri, connections) = {
            let state = self.state();
            let Some((uri, connections)) = state.by_uri.get_key_value(uri) else { return };
            let connections: Vec<_> = connections.iter().filter_map(Weak::upgrade).collect();
            (uri.clone(), connections)
        };
        // Not under the lock: this may be the last owner of a connection.
        for connection in &connections {
            subscriptions::record_update(connection, &uri);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// One connection's subscription to one resource; ends when dropped.
pub(crate) struct Subscription {
    uri: Arc<str>,
    connection: Weak<ConnectionInner>,
    server: Server,
    /// Keeps a provider watching the resource.
    watched: Option<WatchGuard>,
}

impl Subscription {
    /// Subscribes; `None` if the server has too many subscriptions.
    pub(super) fn new(
        server: Server,
        uri: Arc<str>,
        connection: Weak<ConnectionInner>,
    ) -> Option<Self> {
        let added = server.catalog().subscribers().add(&uri, connection.clone());
        added.then_some(Self { uri, connection, server, watched: None })
    }

    /// Keeps the resource watched for as long as the subscription lives.
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

/// Most subscriptions of a server: a client may have many connections.
const MAX_COUNT: usize = 250_000;
