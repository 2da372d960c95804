//! The tools of a server, by name and in order.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
// Names are the author's, so this map needs speed and no defence against chosen keys.
use hashbrown::HashMap;

use super::Tool;

/// Under which names tools are listed. They can be called by both (C-38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolNames {
    /// As they were registered.
    #[default]
    AsRegistered,
    /// With underscores in place of dots, for hosts that refuse dots.
    Underscore,
}

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
    /// Adds tools, all of them or none; those it does not take it gives back, to be dropped where
    /// no lock is held.
    pub(crate) fn add(&mut self, tools: Vec<Tool>) -> Result<(), (RegisterError, Vec<Arc<Tool>>)> {
        let before = self.tools.len();
        let mut fault = None;
        for tool in tools {
            fault = fault.or_else(|| self.index(&tool).err());
            self.tools.push(Arc::new(tool));
        }
        let Some(fault) = fault else { return Ok(()) };
        self.positions.retain(|_, position| *position < before);
        Err((fault, self.tools.split_off(before)))
    }

    /// Enters the names of the tool that comes next.
    fn index(&mut self, tool: &Tool) -> Result<(), RegisterError> {
        let name = tool.definition().name.clone();
        let alias = alias(&name);
        for spelling in [&name, &alias] {
            if let Some(position) = self.positions.get(spelling) {
                let other = self.tools[*position].definition().name.clone();
                return Err(RegisterError { name: name.clone(), other });
            }
        }
        self.positions.insert(alias, self.tools.len());
        self.positions.insert(name, self.tools.len());
        Ok(())
    }

    /// Takes out the tool of this name, if there is one.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<Tool>> {
        let removed = *self.positions.get(name)?;
        self.positions.retain(|_, position| *position != removed);
        for position in self.positions.values_mut().filter(|position| **position > removed) {
            *position -= 1;
        }
        Some(self.tools.remove(removed))
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

/// The spelling of a name that every host accepts.
pub(crate) fn alias(name: &str) -> String {
    name.replace('.', "_")
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
            let more = vec![tool("other"), tool(second)];
            assert!(registry.add(more).is_err(), "{first} and {second}");
            assert!(registry.find("other").is_none(), "all are added or none");
            assert!(registry.find(first).is_some());
        }
    }

    #[test]
    fn a_removed_tool_is_gone_by_both_names() {
        let mut registry = registry(&["a".to_owned(), "b.c".to_owned(), "d".to_owned()]);
        assert_eq!(registry.remove("b_c").unwrap().definition().name, "b.c");
        assert!(registry.find("b.c").is_none() && registry.find("b_c").is_none());
        assert_eq!(registry.find("d").unwrap().definition().name, "d");
        assert!(registry.remove("b.c").is_none());
        registry.add(vec![tool("b.c")]).unwrap();
        let names: Vec<_> = registry.page(None, 9).unwrap().tools.iter().collect();
        let names: Vec<_> = names.iter().map(|tool| tool.definition().name.as_str()).collect();
        assert_eq!(names, ["a", "d", "b.c"]);
    }

    fn registry(names: &[String]) -> Registry {
        let mut registry = Registry::default();
        registry.add(names.iter().map(|name| tool(name)).collect()).unwrap();
        registry
    }

    fn tool(name: &str) -> Tool {
        Tool::builder(name).quick(|_: &Context, _: Value| "").unwrap()
    }
}
