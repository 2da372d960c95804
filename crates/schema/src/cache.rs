//! Cache of compiled schemas and patterns.

use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

/// A bounded map from the source of a schema or pattern to its compiled form.
///
/// It is cleared when full: programs use few different schemas, so that is rare, and a caller that
/// keeps inventing new ones pays for compiling them.
pub struct Cache<K, V> {
    entries: Mutex<Option<HashMap<K, Arc<V>>>>,
    most: usize,
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cache").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, V> Cache<K, V> {
    /// Creates an empty cache of this capacity.
    pub const fn new(most: usize) -> Self {
        Self { entries: Mutex::new(None), most }
    }

    /// Returns the compiled form of `source`, compiling it on a miss. Failures are not cached.
    pub fn get_or_try<Q, E>(
        &self,
        source: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        Q: Hash + hashbrown::Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(found) = self.entries.lock().get_or_insert_default().get(source) {
            return Ok(Arc::clone(found));
        }
        // Compiled outside the lock: it takes long, and doing it twice does no harm.
        let made = Arc::new(make()?);
        let mut entries = self.entries.lock();
        let entries = entries.get_or_insert_default();
        if entries.len() >= self.most {
            entries.clear();
        }
        entries.insert(source.to_owned(), Arc::clone(&made));
        Ok(made)
    }
}
