//! How many connections there are, by transport.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::event::Event;

/// Counts connections by the kind of transport, of which there are a handful; a hook tells it of
/// them.
///
/// ```
/// use mcp_flow_server::Event;
/// use mcp_flow_server::observe::ConnectionCounts;
///
/// let counts = ConnectionCounts::default();
/// counts.note("stdio", &Event::Connected);
/// assert_eq!(counts.open(), 1);
/// ```
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    kinds: [Kind; KINDS],
}

/// The connections of one transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Which transport.
    pub transport: &'static str,
    /// How many are open.
    pub open: u64,
    /// How many there have been.
    pub opened: u64,
}

#[derive(Debug, Default)]
struct Kind {
    name: OnceLock<&'static str>,
    opened: AtomicU64,
    closed: AtomicU64,
}

impl ConnectionCounts {
    /// Takes note of a connection that begins or ends; other events are of no interest.
    pub fn note(&self, transport: &'static str, event: &Event<'_>) {
        if !matches!(event, Event::Connected | Event::Closed(_)) {
            return;
        }
        // A kind takes the first place that is free; past the last one nothing is counted.
        let mut places = self.kinds.iter();
        let kind = places.find(|kind| *kind.name.get_or_init(|| transport) == transport);
        let Some(kind) = kind else { return };
        match event {
            Event::Connected => kind.opened.fetch_add(1, Ordering::Relaxed),
            _ => kind.closed.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// How many are open.
    pub fn open(&self) -> u64 {
        self.each().map(|count| count.open).sum()
    }

    /// What there is of each kind.
    pub fn each(&self) -> impl Iterator<Item = Count> {
        self.kinds.iter().filter_map(|kind| {
            let transport = *kind.name.get()?;
            // Read in this order, so that none is counted as closed before it was opened.
            let closed = kind.closed.load(Ordering::Acquire);
            let opened = kind.opened.load(Ordering::Acquire);
            Some(Count { transport, open: opened.saturating_sub(closed), opened })
        })
    }
}

const KINDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::{ConnectionCounts, Count};
    use crate::connection::Ended;
    use crate::event::Event;

    #[test]
    fn connections_are_counted_by_kind_and_no_further_than_there_is_room() {
        let counts = ConnectionCounts::default();
        for transport in ["http", "http", "stdio", "a", "b", "c", "d", "e", "f", "g"] {
            counts.note(transport, &Event::Connected);
        }
        counts.note("http", &Event::Closed(Ended::Drained));
        counts.note("g", &Event::Closed(Ended::Drained));
        assert_eq!(counts.open(), 8);
        let told: Vec<_> = counts.each().collect();
        assert_eq!(told[0], Count { transport: "http", open: 1, opened: 2 });
        assert!(told.iter().all(|count| count.transport != "g"));
    }
}
