//! A bounded lock-free map from static names to values.

use std::sync::OnceLock;

/// Assigns each name the first free slot; once all are taken, further names share one.
pub(super) struct Slots<T, const N: usize> {
    slots: [Slot<T>; N],
    other: T,
    /// Set if the shared value is in use.
    has_other: OnceLock<()>,
}

#[derive(Default)]
struct Slot<T> {
    name: OnceLock<&'static str>,
    value: T,
}

impl<T, const N: usize> Slots<T, N> {
    pub(super) fn of(&self, name: &'static str) -> &T {
        // Equal names are nearly always the same text, which costs less to see.
        let is_same = |slot: &&Slot<T>| {
            let taken: &'static str = slot.name.get_or_init(|| name);
            std::ptr::eq(taken, name) || taken == name
        };
        let found = self.slots.iter().find(is_same);
        match found {
            Some(slot) => &slot.value,
            None => {
                self.has_other.get_or_init(|| ());
                &self.other
            }
        }
    }

    /// The slots in use, by name.
    pub(super) fn each(&self) -> impl Iterator<Item = (&'static str, &T)> {
        let named = self.slots.iter().filter_map(|slot| Some((*slot.name.get()?, &slot.value)));
        named.chain(self.has_other.get().map(|()| ("more", &self.other)))
    }
}

impl<T: Default, const N: usize> Default for Slots<T, N> {
    fn default() -> Self {
        let slots = std::array::from_fn(|_| Slot { name: OnceLock::new(), value: T::default() });
        Self { slots, other: T::default(), has_other: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn names_beyond_the_capacity_share_a_slot() {
        let slots = Slots::<AtomicU64, 2>::default();
        for name in ["a", "b", "a", "c", "d"] {
            slots.of(name).fetch_add(1, Ordering::Relaxed);
        }
        let counts: Vec<_> =
            slots.each().map(|(name, count)| (name, count.load(Ordering::Relaxed))).collect();
        assert_eq!(counts, [("a", 2), ("b", 1), ("more", 2)]);
    }
}
