//! How many connections there are, by transport.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_flow_server::Event;
use serde_json::{Map, Value, json};

/// Counts by the kind of transport, of which there are a handful.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    kinds: [Kind; KINDS],
}

#[derive(Debug, Default)]
struct Kind {
    name: OnceLock<&'static str>,
    opened: AtomicU64,
    closed: AtomicU64,
}

impl Connections {
    pub(crate) fn note(&self, transport: &'static str, event: &Event<'_>) {
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
    pub(crate) fn open(&self) -> u64 {
        self.kinds.iter().map(Kind::open).sum()
    }

    /// What there is of each kind.
    pub(crate) fn tell(&self) -> Value {
        let kinds = self.kinds.iter().filter_map(|kind| Some((*kind.name.get()?, kind)));
        let told = kinds.map(|(name, kind)| {
            let opened = kind.opened.load(Ordering::Relaxed);
            (name.to_owned(), json!({"open": kind.open(), "total": opened}))
        });
        Value::Object(told.collect::<Map<_, _>>())
    }
}

impl Kind {
    fn open(&self) -> u64 {
        // Read in this order, so that none is counted as closed before it was opened.
        let closed = self.closed.load(Ordering::Acquire);
        self.opened.load(Ordering::Acquire).saturating_sub(closed)
    }
}

const KINDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::Connections;
    use mcp_flow_server::{Ended, Event};

    #[test]
    fn connections_are_counted_by_kind_and_no_further_than_there_is_room() {
        let connections = Connections::default();
        for transport in ["http", "http", "stdio", "a", "b", "c", "d", "e", "f", "g"] {
            connections.note(transport, &Event::Connected);
        }
        connections.note("http", &Event::Closed(Ended::Drained));
        connections.note("g", &Event::Closed(Ended::Drained));
        assert_eq!(connections.open(), 8);
        let told = connections.tell();
        assert_eq!(told["http"], serde_json::json!({"open": 1, "total": 2}));
        assert_eq!(told["g"], serde_json::Value::Null);
    }
}
