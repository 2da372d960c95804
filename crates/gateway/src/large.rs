//! Results and answers that are too large for the journal, in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_flow_proto::OwnedRaw;
use parking_lot::Mutex;

/// Large values by key, for a limited time, and up to a total size: the oldest give way.
#[derive(Debug, Default)]
pub(crate) struct LargeValues {
    values: Mutex<VecDeque<LargeValue>>,
}

#[derive(Debug)]
struct LargeValue {
    key: String,
    value: Arc<OwnedRaw>,
    stored: Instant,
}

impl LargeValues {
    pub(crate) fn insert(&self, key: &str, value: OwnedRaw) {
        let mut values = self.values.lock();
        values.retain(|known| known.key != key && known.stored.elapsed() < RETENTION);
        let (key, value) = (key.to_owned(), Arc::new(value));
        values.push_back(LargeValue { key, value, stored: Instant::now() });
        let mut total: usize = values.iter().map(LargeValue::size).sum();
        while total > MAX_TOTAL
            && values.len() > 1
            && let Some(oldest) = values.pop_front()
        {
            total -= oldest.size();
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Arc<OwnedRaw>> {
        let values = self.values.lock();
        values.iter().find(|known| known.key == key).map(|known| known.value.clone())
    }

    pub(crate) fn remove(&self, key: &str) {
        self.values.lock().retain(|known| known.key != key);
    }
}

impl LargeValue {
    fn size(&self) -> usize {
        self.value.as_raw().bytes().len()
    }
}

/// Time that a value is kept for.
pub(crate) const RETENTION: Duration = Duration::from_secs(600);

/// Limit on the bytes of all values but the latest.
const MAX_TOTAL: usize = 128 << 20;

#[cfg(test)]
mod tests {
    use super::{LargeValues, MAX_TOTAL};
    use mcp_flow_proto::OwnedRaw;

    #[test]
    fn the_oldest_values_give_way() {
        let values = LargeValues::default();
        let third = || OwnedRaw::Json(" ".repeat(MAX_TOTAL / 3).into());
        for key in ["a", "b", "c", "a", "d"] {
            values.insert(key, third());
        }
        let kept = ["a", "b", "c", "d"].map(|key| values.get(key).is_some());
        assert_eq!(kept, [true, false, true, true]);
        values.insert("huge", OwnedRaw::Json(" ".repeat(MAX_TOTAL + 1).into()));
        assert!(values.get("huge").is_some() && values.get("d").is_none());
        values.remove("huge");
        assert!(values.get("huge").is_none());
    }
}
