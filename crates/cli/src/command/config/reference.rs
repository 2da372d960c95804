//! Reference of all keys of the configuration file in Markdown: `docs/configuration-keys.md`.

use serde_json::{Map, Value};

use crate::command::manual::escape;

/// Renders the schema of the file, one section for each table that it may have.
pub(super) fn render(schema: &Value) -> String {
    let mut reference = Reference { definitions: &schema["$defs"], text: BEGINNING.to_owned() };
    for (name, section) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(table) = reference.table(name, section) {
            reference.add("##", &table);
        }
    }
    reference.text
}

const BEGINNING: &str = "# Configuration keys\n\nPrinted by `mcp-flow config schema --markdown`. \
                         [Configuration](configuration.md) explains the sections.\n";

/// The text so far, and the types that the schema refers to.
struct Reference<'a> {
    definitions: &'a Value,
    text: String,
}

/// A table of the file: its keys, and the way to write its name.
struct Table<'a> {
    heading: String,
    path: String,
    schema: &'a Value,
}

impl<'a> Reference<'a> {
    /// Adds a table, and then those within it.
    fn add(&mut self, level: &str, table: &Table<'a>) {
        let description = one_line(table.schema["description"].as_str().unwrap_or_default());
        self.text.push_str(&format!("\n{level} `{}`\n\n{}\n", table.heading, escape(&description)));
        self.text.push_str("\n| key | value | default | meaning |\n|---|---|---|---|\n");
        let mut inner = Vec::new();
        for (key, schema) in table.schema["properties"].as_object().into_iter().flatten() {
            let (mut meaning, default) = split_default(schema);
            let within = self.table(&format!("{}.{key}", table.path), schema);
            let value = match &within {
                Some(within) => format!("[`{}`](#{})", within.heading, anchor(&within.heading)),
                None => self.value(schema),
            };
            for (name, about) in self.choices(schema) {
                meaning.push_str(&format!(" `{name}`: {}.", about.trim_end_matches('.')));
            }
            let required = table.schema["required"].as_array().into_iter().flatten();
            let default = match default.or_else(|| written_default(schema)) {
                _ if within.is_some() => String::new(),
                Some(default) => default,
                None if required.into_iter().any(|name| name == key) => "required".to_owned(),
                None => "none".to_owned(),
            };
            let cells = [value, default, meaning].map(|cell| escape(&cell)).join(" | ");
            self.text.push_str(&format!("| `{key}` | {cells} |\n"));
            inner.extend(within);
        }
        for table in inner {
            self.add("###", &table);
        }
    }

    /// The table that a value is, or of which it has any number.
    fn table(&self, path: &str, schema: &'a Value) -> Option<Table<'a>> {
        let schema = self.resolve(schema);
        let (items, members) = (&schema["items"], &schema["additionalProperties"]);
        let (schema, path, heading) = if schema["properties"].is_object() {
            (schema, path.to_owned(), format!("[{path}]"))
        } else if self.resolve(items)["properties"].is_object() {
            (self.resolve(items), path.to_owned(), format!("[[{path}]]"))
        } else if self.resolve(members)["properties"].is_object() {
            (self.resolve(members), format!("{path}.NAME"), format!("[{path}.NAME]"))
        } else {
            return None;
        };
        Some(Table { heading, path, schema })
    }

    /// Follows references, also to values that may be left out.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        let optional = schema["anyOf"].as_array().filter(|kinds| kinds[1]["type"] == "null");
        match (schema["$ref"].as_str(), optional) {
            (Some(reference), _) => &self.definitions[reference.trim_start_matches("#/$defs/")],
            (None, Some(kinds)) => self.resolve(&kinds[0]),
            (None, None) => schema,
        }
    }

    /// Kind of value, with its range.
    fn value(&self, schema: &'a Value) -> String {
        let schema = self.resolve(schema);
        if let Some(kinds) = schema["anyOf"].as_array() {
            return kinds.iter().map(|kind| self.value(kind)).collect::<Vec<_>>().join(" or ");
        }
        let named = schema["enum"].as_array().into_iter().flatten();
        let constants = schema["oneOf"].as_array().into_iter().flatten();
        let named: Vec<_> = named.chain(constants.map(|one| &one["const"])).map(code).collect();
        if !named.is_empty() {
            return named.join(", ");
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => &kinds[0],
            kind => kind,
        };
        let range = |kind: &str| match (&schema["minimum"], &schema["maximum"]) {
            (Value::Number(least), Value::Number(most)) => format!("{kind}, {least} to {most}"),
            (Value::Number(least), _) if least.as_f64() > Some(0.0) => {
                format!("{kind}, from {least}")
            }
            (_, Value::Number(most)) => format!("{kind}, up to {most}"),
            _ => kind.to_owned(),
        };
        match kind.as_str() {
            Some("boolean") => "true or false".to_owned(),
            Some("integer") => range("whole number"),
            Some("number") => range("number"),
            Some("array") => format!("list of {}", self.value(&schema["items"])),
            Some("object") => "table of text".to_owned(),
            _ => "text".to_owned(),
        }
    }

    /// Values that can be chosen, if they have descriptions.
    fn choices(&self, schema: &'a Value) -> Vec<(&'a str, String)> {
        let choices = self.resolve(schema)["oneOf"].as_array().into_iter().flatten();
        let text = |choice: &'a Value| {
            Some((choice["const"].as_str()?, one_line(choice["description"].as_str()?)))
        };
        choices.filter_map(text).collect()
    }
}

/// Takes the sentence that names the default out of a description.
fn split_default(schema: &Value) -> (String, Option<String>) {
    let description = one_line(schema["description"].as_str().unwrap_or_default());
    let Some((before, rest)) = description.split_once("Default: ") else {
        return (description, None);
    };
    let (default, after) = rest.split_once(". ").unwrap_or((rest.trim_end_matches('.'), ""));
    (format!("{before}{after}").trim_end().to_owned(), Some(default.to_owned()))
}

/// The default that the schema has, unless it is empty.
fn written_default(schema: &Value) -> Option<String> {
    let default = &schema["default"];
    let is_empty = default.is_null()
        || default == ""
        || default.as_array().is_some_and(Vec::is_empty)
        || default.as_object().is_some_and(Map::is_empty);
    (!is_empty).then(|| code(default))
}

fn code(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// Anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let is_kept = |letter: &char| letter.is_alphanumeric() || "_-".contains(*letter);
    heading.chars().filter(is_kept).collect::<String>().to_lowercase()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::configuration::File;

    /// The reference is up to date; `mcp-flow config schema --markdown > docs/configuration-keys.md`
    /// makes it so.
    #[test]
    fn the_reference_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration-keys.md");
        let written = std::fs::read_to_string(file).unwrap_or_default();
        let current = super::render(&File::schema());
        assert!(
            written == current,
            "run: mcp-flow config schema --markdown > docs/configuration-keys.md"
        );
    }

    /// Nested tables have sections, and every key its kind, range and default.
    #[test]
    fn keys_have_kinds_ranges_and_defaults() {
        let text = super::render(&File::schema());
        for line in [
            "### `[identity.issuers.NAME]`",
            "### `[[identity.tokens]]`",
            "| `dpop` | [`[identity.dpop]`](#identitydpop) |  | ",
            "| `listen` | text | `127.0.0.1:4433` | ",
            "| `audience` | list of text | required | ",
            "| `window_seconds` | whole number, 1 to 3600 | `60` | ",
            "| `when_full` | `wait`, `drop` | `wait` | ",
            "| `requests_per_second` | number | 200 on a public address, otherwise 0 | ",
            "| `tls_key` | text | none | ",
        ] {
            assert!(text.contains(&format!("\n{line}")), "{line}\n{text}");
        }
    }
}
