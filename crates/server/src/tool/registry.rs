//! The tools of a server, by name and in order.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
// Names are the author's, so this map needs speed and no defence against chosen keys.
use hashbrown::HashMap;

use super::Tool;

/// Tools in the order they were registered, found by name or alias.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    tools: Vec<Arc<Tool>>,
    /// Names, and the underscore spellings of names with dots (C-38).
    positions: HashMap<String, usize>,
}

/// One page of tools, and where the next begins.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    pub(crate) tools: &'a [Arc<Tool>],
    pub(crate) next_cursor: Option<String>,
}

impl Registry {
    pub(crate) fn add(&mut self, tool: Tool) -> Result<(), RegisterError> {
        let name = tool.definition().name.clone();
        let alias = name.replace('.', "_");
        for spelling in [&name, &alias] {
            if let Some(position) = self.positions.get(spelling) {
                let other = self.tools[*position].definition().name.clone();
                return Err(RegisterError { name: name.clone(), other });
            }
        }
        self.positions.insert(alias, self.tools.len());
        self.positions.insert(name, self.tools.len());
        self.tools.push(Arc::new(tool));
        Ok(())
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Tool>> {
        self.positions.get(name).map(|position| &self.tools[*position])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The page that begins at a cursor; `None` if the cursor is none of ours.
    pub(crate) fn page(&self, cursor: Option<&str>, size: usize) -> Option<Page<'_>> {
        let start = match cursor {
            None => 0,
            Some(cursor) => self.after(cursor)?,
        };
        let rest = &self.tools[start..];
        let tools = &rest[..rest.len().min(size.max(1))];
        let last = tools.last().filter(|_| tools.len() < rest.len());
        let next_cursor = last.map(|tool| URL_SAFE_NO_PAD.encode(&tool.definition().name));
        Some(Page { tools, next_cursor })
    }

    /// The position after the tool a cursor names. Opaque to clients, but it survives changes of
    /// the list, which a bare number would not.
    fn after(&self, cursor: &str) -> Option<usize> {
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let position = *self.positions.get(&name)?;
        (self.tools[position].definition().name == name).then_some(position + 1)
    }
}

/// Two tools would answer to the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tools {name} and {other} would answer to the same name; rename one of them")]
pub struct RegisterError {
    name: String,
    other: String,
}

#[cfg(test)]
mod tests {
    use super::Registry;
    use crate::context::Context;
    use crate::tool::Tool;
    use serde_json::Value;

    /// PAT-026, C-30: pages cover all tools once, in a stable order.
    #[test]
    fn pages_cover_all_tools_once() {
        let names: Vec<_> = (0..120).map(|number| format!("tool_{number}")).collect();
        let registry = registry(&names);
        for size in [1, 7, 119, 120, 1000] {
            let mut seen = Vec::new();
            let mut cursor: Option<String> = None;
            loop {
                let page = registry.page(cursor.as_deref(), size).unwrap();
                seen.extend(page.tools.iter().map(|tool| tool.definition().name.clone()));
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, names);
        }
    }

    #[test]
    fn a_cursor_of_someone_elses_making_is_refused() {
        let registry = registry(&["a.b".to_owned(), "c".to_owned()]);
        for cursor in ["", "x", "!", "YV9i", "bm9wZQ"] {
            assert!(registry.page(Some(cursor), 1).is_none(), "{cursor}");
        }
    }

    /// C-38: a name with dots also answers to underscores.
    #[test]
    fn dotted_names_have_an_alias() {
        let registry = registry(&["a.b".to_owned()]);
        assert_eq!(registry.find("a_b").unwrap().definition().name, "a.b");
        assert!(registry.find("a-b").is_none());
    }

    #[test]
    fn colliding_names_are_refused() {
        for (first, second) in [("a", "a"), ("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c")] {
            let mut registry = registry(&[first.to_owned()]);
            assert!(registry.add(tool(second)).is_err(), "{first} and {second}");
        }
    }

    fn registry(names: &[String]) -> Registry {
        let mut registry = Registry::default();
        names.iter().for_each(|name| registry.add(tool(name)).unwrap());
        registry
    }

    fn tool(name: &str) -> Tool {
        Tool::builder(name).quick(|_: &Context, _: Value| "").unwrap()
    }
}
