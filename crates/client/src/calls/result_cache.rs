//! Cache of results, for as long as their server allows (2026-07-28).
//!
//! Lists and contents of resources only. A change that the server announces ends what it concerns at
//! once; a new connection ends everything, because changes may have been missed. The cache belongs to
//! one client, and so to one authorization context: private results are never shared.

use hashbrown::HashMap;
use mcp_flow_proto::{OwnedRaw, Raw, method};
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Fresh results by method and subject.
#[derive(Debug, Default)]
pub(crate) struct ResultCache {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<CacheKey, Entry>,
    bytes: usize,
    /// Number of times something was forgotten.
    generation: u64,
}

#[derive(Debug)]
struct Entry {
    result: OwnedRaw,
    expires: Instant,
}

/// A request whose result may be cached: its method, and the cursor of a page or the URI of a
/// resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    method: &'static str,
    subject: String,
}

impl CacheKey {
    /// Creates a key, if results of this method may be cached.
    pub(crate) fn new(method: &str, subject: &str) -> Option<Self> {
        let method = CACHEABLE.into_iter().find(|known| *known == method)?;
        Some(Self { method, subject: subject.to_owned() })
    }

    fn size(&self, result: &OwnedRaw) -> usize {
        self.subject.len() + result.as_raw().bytes().len() + ENTRY_BYTES
    }
}

impl ResultCache {
    /// Returns a fresh result.
    pub(crate) fn find(&self, key: &CacheKey) -> Option<OwnedRaw> {
        let mut state = self.state.lock();
        let entry = state.entries.get(key)?;
        if entry.expires > Instant::now() {
            return Some(entry.result.clone());
        }
        state.remove(key);
        None
    }

    /// The number of times something was forgotten, to be passed to [`store`](Self::store).
    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Stores a result, if its server allows that and nothing was forgotten since it was requested.
    pub(crate) fn store(&self, key: &CacheKey, result: &OwnedRaw, generation: u64, limit: usize) {
        let Some(ttl) = lifetime(result.as_raw()) else { return };
        let size = key.size(result);
        let mut state = self.state.lock();
        if state.generation != generation || size > limit / 2 {
            return;
        }
        state.remove(key);
        state.make_room(limit - size);
        state.bytes += size;
        let expires = Instant::now() + ttl;
        state.entries.insert(key.clone(), Entry { result: result.clone(), expires });
    }

    /// Forgets all results of a method.
    pub(crate) fn forget(&self, method: &str) {
        self.forget_if(|key| key.method == method);
    }

    /// Forgets the contents of a resource.
    pub(crate) fn forget_resource(&self, uri: &str) {
        self.forget_if(|key| key.method == method::RESOURCES_READ && key.subject == uri);
    }

    /// Forgets one result.
    pub(crate) fn forget_result(&self, key: &CacheKey) {
        self.forget_if(|other| other == key);
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.forget_if(|_| true);
    }

    fn forget_if(&self, is_concerned: impl Fn(&CacheKey) -> bool) {
        let mut state = self.state.lock();
        state.generation += 1;
        let concerned: Vec<_> =
            state.entries.keys().filter(|key| is_concerned(key)).cloned().collect();
        concerned.iter().for_each(|key| state.remove(key));
    }
}

impl State {
    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= key.size(&entry.result);
        }
    }

    /// Removes the entries that expire first, until the others need at most this many bytes.
    fn make_room(&mut self, limit: usize) {
        while self.bytes > limit {
            let first = self.entries.iter().min_by_key(|(_, entry)| entry.expires);
            let Some(key) = first.map(|(key, _)| key.clone()) else { return };
            self.remove(&key);
        }
    }
}

/// Reads the time for which a complete result is fresh; `None` if it is stale at once.
fn lifetime(result: Raw<'_>) -> Option<Duration> {
    let [kind, ttl, scope] = result.members(["resultType", "ttlMs", "cacheScope"]).ok()?;
    let is_complete = kind?.as_text()? == "complete";
    let is_known = scope.is_none_or(|scope| {
        scope.as_text().is_some_and(|scope| matches!(&*scope, "public" | "private"))
    });
    // Negative and fractional values are no lifetimes.
    let ttl: u64 = ttl?.decode().ok()?;
    (is_complete && is_known && ttl > 0).then(|| Duration::from_millis(ttl).min(MAX_TTL))
}

/// Methods whose results are cached.
const CACHEABLE: [&str; 5] = [
    method::TOOLS_LIST,
    method::PROMPTS_LIST,
    method::RESOURCES_LIST,
    method::RESOURCES_TEMPLATES_LIST,
    method::RESOURCES_READ,
];

/// Longest time for which a result is trusted, whatever the server says.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Memory of an entry besides its texts, about.
const ENTRY_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::{CacheKey, ResultCache};
    use mcp_flow_proto::{OwnedRaw, Raw};
    use serde_json::{Value, json};
    use std::time::Duration;

    fn raw(value: &Value) -> OwnedRaw {
        Raw::Json(&value.to_string()).to_owned()
    }

    fn key(method: &str, subject: &str) -> CacheKey {
        CacheKey::new(method, subject).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_fresh_for_their_lifetime() {
        let cache = ResultCache::default();
        let list = key("tools/list", "");
        let fresh = raw(&json!({"resultType": "complete", "ttlMs": 1000, "cacheScope": "private"}));
        cache.store(&list, &fresh, cache.generation(), 1 << 20);
        assert_eq!(cache.find(&list).unwrap().as_raw().bytes(), fresh.as_raw().bytes());
        assert!(cache.find(&key("tools/list", "next")).is_none());
        assert!(cache.find(&key("prompts/list", "")).is_none());
        tokio::time::advance(Duration::from_millis(1000)).await;
        assert!(cache.find(&list).is_none());
        assert_eq!(cache.state.lock().bytes, 0);
    }

    #[test]
    fn only_complete_results_with_a_lifetime_are_cached() {
        assert!(CacheKey::new("tools/call", "").is_none());
        let cache = ResultCache::default();
        for result in [
            json!({"resultType": "complete"}),
            json!({"resultType": "complete", "ttlMs": 0}),
            json!({"resultType": "complete", "ttlMs": -5}),
            json!({"resultType": "complete", "ttlMs": "60000"}),
            json!({"resultType": "complete", "ttlMs": 1e300}),
            json!({"resultType": "complete", "ttlMs": 1000, "cacheScope": "everyone"}),
            json!({"resultType": "input_required", "ttlMs": 1000}),
            json!({"ttlMs": 1000}),
        ] {
            cache.store(&key("tools/list", ""), &raw(&result), cache.generation(), 1 << 20);
            assert!(cache.find(&key("tools/list", "")).is_none(), "{result}");
        }
    }

    #[test]
    fn announced_changes_end_what_they_concern() {
        let cache = ResultCache::default();
        let fresh = raw(&json!({"resultType": "complete", "ttlMs": 60_000}));
        let keys = [
            key("tools/list", ""),
            key("tools/list", "2"),
            key("resources/read", "x:/a"),
            key("resources/read", "x:/b"),
        ];
        let store = || {
            for key in &keys {
                cache.store(key, &fresh, cache.generation(), 1 << 20);
            }
        };
        let found = || keys.each_ref().map(|key| cache.find(key).is_some());
        store();
        cache.forget("tools/list");
        assert_eq!(found(), [false, false, true, true]);
        store();
        cache.forget_resource("x:/a");
        assert_eq!(found(), [true, true, false, true]);
        cache.clear();
        assert_eq!((found(), cache.state.lock().bytes), ([false; 4], 0));
        // A result that was requested before the change may be older than it.
        let before = cache.generation();
        cache.forget("tools/list");
        cache.store(&keys[0], &fresh, before, 1 << 20);
        assert_eq!(found(), [false; 4]);
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = ResultCache::default();
        let large = raw(&json!({"resultType": "complete", "ttlMs": 60_000, "x": "x".repeat(1000)}));
        for number in 0..100 {
            let key = key("resources/read", &format!("x:/{number}"));
            cache.store(&key, &large, cache.generation(), 10_000);
            assert!(cache.state.lock().bytes <= 10_000);
            assert!(cache.find(&key).is_some());
        }
        let huge = raw(&json!({"resultType": "complete", "ttlMs": 60_000, "x": "x".repeat(6000)}));
        cache.store(&key("tools/list", ""), &huge, cache.generation(), 10_000);
        assert!(cache.find(&key("tools/list", "")).is_none());
    }
}
