//! Names of tools.

use super::Tool;
use crate::registry::Entry;

pub use crate::registry::RegisterError;

/// The names that tools are listed under. They can be called by both (C-38).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolNames {
    /// As registered.
    #[default]
    AsRegistered,
    /// With underscores in place of dots, for hosts that reject dots.
    Underscore,
}

impl Entry for Tool {
    const KIND: &'static str = "tools";

    fn name(&self) -> &str {
        &self.definition().name
    }

    fn alias(&self) -> Option<String> {
        Some(alias(self.name()))
    }
}

/// The spelling of a name that every host accepts.
pub(crate) fn alias(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use crate::context::Context;
    use crate::registry::Registry;
    use crate::tool::Tool;
    use serde_json::Value;

    /// C-38: a name with dots has an alias with underscores.
    #[test]
    fn dotted_names_have_an_alias() {
        let tool = Tool::builder("a.b").quick(|_: &Context, _: Value| "").unwrap();
        let mut registry = Registry::default();
        registry.add(vec![tool]).unwrap();
        assert_eq!(registry.find("a_b").unwrap().definition().name, "a.b");
        assert!(registry.find("a-b").is_none());
    }
}
