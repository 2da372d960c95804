//! Counters of connections by transport.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::event::ConnectionEvent;

/// Counts connections by kind of transport. A hook feeds it.
///
/// ```
/// use mcp_flow_server::ConnectionEvent;
/// use mcp_flow_server::observe::ConnectionCounts;
///
/// let counts = ConnectionCounts::default();
/// counts.record("stdio", &ConnectionEvent::Connected);
/// assert_eq!(counts.open(), 1);
/// ```
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    kinds: [Kind; KINDS],
}

/// The connections of one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCount {
    /// The transport.
    pub transport: &'static str,
    /// Connections open now.
    pub open: u64,
    /// Connections opened so far.
    pub opened: u64,
}

#[derive(Debug, Default)]
struct Kind {
    name: OnceLock<&'static str>,
    opened: AtomicU64,
    closed: AtomicU64,
}

impl ConnectionCounts {
    /// Records that a connection opened or closed; ignores other events.
    pub fn record(&self, transport: &'static str, event: &ConnectionEvent<'_>) {
        if !matches!(event, ConnectionEvent::Connected | ConnectionEvent::Closed(_)) {
            return;
        }
        // A kind claims the first free slot; once all are taken, further kinds are not counted.
        let mut slots = self.kinds.iter();
        let kind = slots.find(|kind| *kind.name.get_or_init(|| transport) == transport);
        let Some(kind) = kind else { return };
        match event {
            ConnectionEvent::Connected => kind.opened.fetch_add(1, Ordering::Relaxed),
            _ => kind.closed.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// The number of open connections.
    pub fn open(&self) -> u64 {
        self.each().map(|count| count.open).sum()
    }

    /// The counts of each transport.
    pub fn each(&self) -> impl Iterator<Item = ConnectionCount> {
        self.kinds.iter().filter_map(|kind| {
            let transport = *kind.name.get()?;
            // Read in this order, so that none is counted as closed before it was opened.
            let closed = kind.closed.load(Ordering::Acquire);
            let opened = kind.opened.load(Ordering::Acquire);
            Some(ConnectionCount { transport, open: opened.saturating_sub(closed), opened })
        })
    }
}

const KINDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::{ConnectionCount, ConnectionCounts};
    use crate::connection::ConnectionEnd;
    use crate::event::ConnectionEvent;

    #[test]
    fn connections_are_counted_by_kind_up_to_the_number_of_slots() {
        let counts = ConnectionCounts::default();
        for transport in ["http", "http", "stdio", "a", "b", "c", "d", "e", "f", "g"] {
            counts.record(transport, &ConnectionEvent::Connected);
        }
        counts.record("http", &ConnectionEvent::Closed(ConnectionEnd::Drained));
        counts.record("g", &ConnectionEvent::Closed(ConnectionEnd::Drained));
        assert_eq!(counts.open(), 8);
        let counted: Vec<_> = counts.each().collect();
        assert_eq!(counted[0], ConnectionCount { transport: "http", open: 1, opened: 2 });
        assert!(counted.iter().all(|count| count.transport != "g"));
    }
}
