//! Registry of named entries: ordered, found by name, listed in pages.
//!
//! Tools, prompts, resources and templates are kept in one each. It knows no permissions: callers decide
//! what a principal sees.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
// Names come from the author, so the map needs no defence against crafted keys.
use hashbrown::HashMap;

/// An entry that has a name.
pub(crate) trait Entry {
    /// Plural noun for messages.
    const KIND: &'static str;

    /// The name it is listed under.
    fn name(&self) -> &str;

    /// Another name it is found by, if there is one.
    fn alias(&self) -> Option<String>;
}

/// Entries in the order they were registered, found by name or alias.
#[derive(Debug)]
pub(crate) struct Registry<T> {
    entries: Vec<Arc<T>>,
    /// Names and aliases.
    positions: HashMap<String, usize>,
}

/// One page of entries, and where the next begins.
#[derive(Debug)]
pub(crate) struct Page<'a, T> {
    pub(crate) entries: Vec<&'a Arc<T>>,
    pub(crate) next_cursor: Option<String>,
}

impl<T> Default for Registry<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), positions: HashMap::new() }
    }
}

impl<T: Entry> Registry<T> {
    /// Adds all entries or none; returns rejected ones, to be dropped where no lock is held.
    pub(crate) fn add(&mut self, entries: Vec<T>) -> Result<(), (RegisterError, Vec<Arc<T>>)> {
        let before = self.entries.len();
        let mut fault = None;
        for entry in entries {
            fault = fault.or_else(|| self.index(&entry).err());
            self.entries.push(Arc::new(entry));
        }
        let Some(fault) = fault else { return Ok(()) };
        self.positions.retain(|_, position| *position < before);
        Err((fault, self.entries.split_off(before)))
    }

    /// Indexes the names of the next entry.
    fn index(&mut self, entry: &T) -> Result<(), RegisterError> {
        let name = entry.name().to_owned();
        let names = [Some(name.clone()), entry.alias().filter(|alias| *alias != name)];
        for spelling in names.iter().flatten() {
            if let Some(position) = self.positions.get(spelling) {
                let other = self.entries[*position].name().to_owned();
                return Err(RegisterError { kind: T::KIND, name, other });
            }
        }
        let position = self.entries.len();
        self.positions.extend(names.into_iter().flatten().map(|name| (name, position)));
        Ok(())
    }

    /// Removes the entry with this name, if there is one.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<T>> {
        let removed = *self.positions.get(name)?;
        self.positions.retain(|_, position| *position != removed);
        for position in self.positions.values_mut().filter(|position| **position > removed) {
            *position -= 1;
        }
        Some(self.entries.remove(removed))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<T>> {
        self.positions.get(name).map(|position| &self.entries[*position])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.entries.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The page of visible entries at a cursor; `None` if the cursor is invalid.
    pub(crate) fn page(
        &self,
        cursor: Option<&str>,
        size: usize,
        is_visible: impl Fn(&T) -> bool,
    ) -> Option<Page<'_, T>> {
        let start = match cursor {
            None => 0,
            Some(cursor) => self.after(cursor, &is_visible)?,
        };
        let mut rest = self.entries[start..].iter().filter(|entry| is_visible(entry));
        let entries: Vec<_> = rest.by_ref().take(size.max(1)).collect();
        let last = entries.last().filter(|_| rest.next().is_some());
        let next_cursor = last.map(|entry| URL_SAFE_NO_PAD.encode(entry.name()));
        Some(Page { entries, next_cursor })
    }

    /// The position after the entry named by a cursor. A cursor stays valid when the list changes,
    /// which a position would not. A cursor that names a hidden entry is invalid.
    fn after(&self, cursor: &str, is_visible: impl Fn(&T) -> bool) -> Option<usize> {
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let position = *self.positions.get(&name)?;
        let entry = &self.entries[position];
        (entry.name() == name && is_visible(entry)).then_some(position + 1)
    }
}

/// Two entries have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {kind} {name} and {other} have the same name or alias; rename one of them")]
pub struct RegisterError {
    kind: &'static str,
    name: String,
    other: String,
}

#[cfg(test)]
mod tests {
    use super::{Entry, Registry};

    /// An entry whose alias has underscores for dots.
    #[derive(Debug)]
    struct Named(String);

    impl Entry for Named {
        const KIND: &'static str = "things";

        fn name(&self) -> &str {
            &self.0
        }

        fn alias(&self) -> Option<String> {
            Some(self.0.replace('.', "_"))
        }
    }

    /// PAT-015, PAT-026, C-30: pages cover all entries once, in a stable order.
    #[test]
    fn pages_cover_all_entries_once() {
        let names: Vec<_> = (0..120).map(|number| format!("entry_{number}")).collect();
        let registry = registry(&names);
        for size in [1, 7, 119, 120, 1000] {
            assert_eq!(all(&registry, size, |_| true), names);
        }
    }

    /// PAT-020: hidden entries are on no page and do not count towards its size.
    #[test]
    fn pages_show_only_what_is_visible() {
        let names: Vec<_> = (0..10).map(|number| number.to_string()).collect();
        let registry = registry(&names);
        let is_odd = |entry: &Named| entry.0.parse::<u32>().unwrap() % 2 == 1;
        for size in [1, 2, 5, 9] {
            assert_eq!(all(&registry, size, is_odd), ["1", "3", "5", "7", "9"]);
        }
        let none = registry.page(None, 3, |_| false).unwrap();
        assert!(none.entries.is_empty() && none.next_cursor.is_none());
    }

    /// PAT-016: an invalid cursor is rejected, one that names a hidden entry included.
    #[test]
    fn invalid_cursors_are_rejected() {
        let registry = registry(&["a.b".to_owned(), "c".to_owned()]);
        for cursor in ["", "x", "!", "YV9i", "bm9wZQ"] {
            assert!(registry.page(Some(cursor), 1, |_| true).is_none(), "{cursor}");
        }
        let cursor = registry.page(None, 1, |_| true).unwrap().next_cursor;
        assert!(registry.page(cursor.as_deref(), 1, |_| true).is_some());
        assert!(registry.page(cursor.as_deref(), 1, |entry| entry.0 == "c").is_none());
    }

    #[test]
    fn colliding_names_are_rejected() {
        for (first, second) in [("a", "a"), ("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")] {
            let mut registry = registry(&[first.to_owned()]);
            let more = vec![Named("other".to_owned()), Named(second.to_owned())];
            assert!(registry.add(more).is_err(), "{first} and {second}");
            assert!(registry.find("other").is_none(), "all are added or none");
            assert!(registry.find(first).is_some());
        }
    }

    #[test]
    fn a_removed_entry_is_gone_by_both_names() {
        let mut registry = registry(&["a".to_owned(), "b.c".to_owned(), "d".to_owned()]);
        assert_eq!(registry.remove("b_c").unwrap().0, "b.c");
        assert!(registry.find("b.c").is_none() && registry.find("b_c").is_none());
        assert_eq!(registry.find("d").unwrap().0, "d");
        assert!(registry.remove("b.c").is_none());
        registry.add(vec![Named("b.c".to_owned())]).unwrap();
        assert_eq!(all(&registry, 9, |_| true), ["a", "d", "b.c"]);
    }

    fn all(
        registry: &Registry<Named>,
        size: usize,
        is_visible: impl Fn(&Named) -> bool,
    ) -> Vec<String> {
        let mut seen = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = registry.page(cursor.as_deref(), size, &is_visible).unwrap();
            seen.extend(page.entries.iter().map(|entry| entry.0.clone()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return seen;
            }
        }
    }

    fn registry(names: &[String]) -> Registry<Named> {
        let mut registry = Registry::default();
        registry.add(names.iter().cloned().map(Named).collect()).unwrap();
        registry
    }
}
