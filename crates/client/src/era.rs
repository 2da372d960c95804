//! Which era servers are of, remembered by origin for the life of the process.
//!
//! The official text says so: the era is a property of the server, and asking again for every
//! connection costs a round trip with each of the old ones.

use std::sync::{LazyLock, Mutex, PoisonError};

use hashbrown::HashMap;

static LEGACY: LazyLock<Mutex<HashMap<String, ()>>> = LazyLock::new(Mutex::default);

/// Whether the server at this origin was found to want a handshake.
pub(crate) fn is_legacy(origin: Option<&str>) -> bool {
    origin.is_some_and(|origin| lock().contains_key(origin))
}

/// Remembers that it does, or that it does not any more.
pub(crate) fn remember(origin: Option<&str>, legacy: bool) {
    let Some(origin) = origin else { return };
    let mut known = lock();
    if !legacy {
        known.remove(origin);
    } else if known.len() < MOST {
        known.insert(origin.to_owned(), ());
    }
}

fn lock() -> std::sync::MutexGuard<'static, HashMap<String, ()>> {
    LEGACY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many origins are remembered; those beyond are asked every time.
const MOST: usize = 4096;
