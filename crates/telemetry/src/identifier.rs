//! Random ids of traces and spans.

use std::cell::RefCell;

use fastrand::Rng;

/// Draws a trace id.
pub(crate) fn trace_id() -> u128 {
    SOURCE.with_borrow_mut(|source| source.u128(1..))
}

/// Draws a span id.
pub(crate) fn span_id() -> u64 {
    SOURCE.with_borrow_mut(|source| source.u64(1..))
}

thread_local! {
    // Seeded by the system: ids of several machines must differ.
    static SOURCE: RefCell<Rng> =
        RefCell::new(getrandom::u64().map_or_else(|_| Rng::new(), Rng::with_seed));
}
