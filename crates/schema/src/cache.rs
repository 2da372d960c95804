//! Cache of compiled schemas and patterns.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;

/// A bounded map from the source of a rule to its compiled form.
///
/// It is emptied when full: programs use few different rules, so that hardly ever happens, and
/// whoever makes up new ones without end pays for compiling them.
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
    /// Creates an empty cache for so many.
    pub const fn new(most: usize) -> Self {
        Self { entries: Mutex::new(None), most }
    }

    /// Finds the compiled form of `source`, or compiles it. Failures are not kept.
    pub fn get_or_try<Q, E>(
        &self,
        source: &Q,
        make: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E>
    where
        Q: Hash + hashbrown::Equivalent<K> + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(found) = self.lock().get_or_insert_default().get(source) {
            return Ok(Arc::clone(found));
        }
        // Made outside the lock: compiling takes long, and two who make the same do no harm.
        let made = Arc::new(make()?);
        let mut entries = self.lock();
        let entries = entries.get_or_insert_default();
        if entries.len() >= self.most {
            entries.clear();
        }
        entries.insert(source.to_owned(), Arc::clone(&made));
        Ok(made)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<HashMap<K, Arc<V>>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
