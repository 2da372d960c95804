//! Cache of servers that need `initialize`, by origin, for the life of the process.
//!
//! As the specification suggests: probing every connection costs a round trip with each old server.

use std::sync::LazyLock;

use hashbrown::HashMap;
use parking_lot::Mutex;

static LEGACY: LazyLock<Mutex<HashMap<String, ()>>> = LazyLock::new(Mutex::default);

/// Returns whether the server at this origin is known to need `initialize`.
pub(crate) fn is_legacy(origin: Option<&str>) -> bool {
    origin.is_some_and(|origin| lock().contains_key(origin))
}

/// Caches whether the server at this origin needs `initialize`.
pub(crate) fn remember(origin: Option<&str>, legacy: bool) {
    let Some(origin) = origin else { return };
    let mut known = lock();
    if !legacy {
        known.remove(origin);
    } else if known.len() < MAX_COUNT {
        known.insert(origin.to_owned(), ());
    }
}

fn lock() -> parking_lot::MutexGuard<'static, HashMap<String, ()>> {
    LEGACY.lock()
}

/// Maximum number of cached origins; others are probed every time.
const MAX_COUNT: usize = 4096;
