//! Numbers of the connections that HTTP clients have with a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Connections by what their requests name: a session, or the endpoint of the legacy transport.
#[derive(Debug)]
pub(crate) struct Connections {
    known: Mutex<HashMap<String, u64>>,
    last: AtomicU64,
}

impl Default for Connections {
    fn default() -> Self {
        Self { known: Mutex::default(), last: AtomicU64::new(ANONYMOUS) }
    }
}

impl Connections {
    /// Begins a connection that no request names.
    pub(crate) fn begin(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The connection of a session, which begins with the first response that names it.
    pub(crate) fn of_session(&self, session: &str) -> u64 {
        let mut known = self.known();
        *known.entry(session_key(session)).or_insert_with(|| self.begin())
    }

    /// Begins the connection of an event stream that told its client to post to an endpoint.
    pub(crate) fn begin_events(&self, stream: &str, endpoint: &str) -> u64 {
        let number = self.begin();
        self.known().insert(endpoint_key(&resolve(stream, endpoint)), number);
        number
    }

    /// The connection that a request names, if it began.
    pub(crate) fn find(&self, session: Option<&str>, path: &str) -> Option<u64> {
        let known = self.known.lock();
        let of_session = session.and_then(|session| known.get(&session_key(session)));
        of_session.or_else(|| known.get(&endpoint_key(path))).copied()
    }

    fn known(&self) -> parking_lot::MutexGuard<'_, HashMap<String, u64>> {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known
    }
}

fn session_key(session: &str) -> String {
    format!("session {session}")
}

fn endpoint_key(path: &str) -> String {
    format!("endpoint {path}")
}

/// Path and query of an endpoint, which may be relative to the path of its event stream.
fn resolve(stream: &str, endpoint: &str) -> String {
    if let Some((_, rest)) = endpoint.split_once("://") {
        return rest.find('/').map_or("/", |at| &rest[at..]).to_owned();
    }
    if endpoint.starts_with('/') {
        return endpoint.to_owned();
    }
    let path = stream.split('?').next().unwrap_or_default();
    if endpoint.starts_with('?') {
        return format!("{path}{endpoint}");
    }
    let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
    format!("{folder}{endpoint}")
}

/// The connection of requests that name none.
pub(crate) const ANONYMOUS: u64 = 1;

/// Limit on connections that are told apart.
const MAX_KNOWN: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::Connections;

    #[test]
    fn posts_to_an_endpoint_belong_to_its_event_stream() {
        let connections = Connections::default();
        for (stream, endpoint, path) in [
            ("/sse", "/messages?session=1", "/messages?session=1"),
            ("/a/sse?token=x", "messages?session=2", "/a/messages?session=2"),
            ("/sse?token=x", "?session=3", "/sse?session=3"),
            ("/sse", "http://host:80/messages/4", "/messages/4"),
            ("/sse", "http://host", "/"),
        ] {
            let number = connections.begin_events(stream, endpoint);
            assert_eq!(connections.find(None, path), Some(number), "{endpoint}");
        }
        assert_eq!(connections.find(None, "/messages?session=9"), None);
        let session = connections.of_session("/messages/4");
        assert_eq!(connections.of_session("/messages/4"), session);
        assert_eq!(connections.find(Some("/messages/4"), "/mcp"), Some(session));
        assert_ne!(connections.find(None, "/messages/4"), Some(session));
    }
}
