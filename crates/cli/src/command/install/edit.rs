//! Edits of a host's configuration that keep comments, order and formatting.

use anyhow::Context as _;
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table};

use super::host::Format;

/// A server in a host's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostEntry {
    Command { program: String, arguments: Vec<String> },
    Address(String),
}

/// Adds or replaces a server in the text of a configuration file. Fails, with the place of the
/// problem, if the text is not what the host itself would read. Its line ends and byte order mark stay.
pub(super) fn add(
    text: &str,
    format: Format,
    name: &str,
    entry: &HostEntry,
) -> anyhow::Result<String> {
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (BYTE_ORDER_MARK, text),
        None => ("", text),
    };
    let edited = match format {
        Format::Json { section, address, has_type } => {
            add_json(text, section, name, members(entry, address, has_type))
        }
        Format::Toml => add_toml(text, name, entry),
    };
    Ok(format!("{mark}{}", edited?))
}

fn members(entry: &HostEntry, address: &str, has_type: bool) -> Vec<(String, Value)> {
    let kind = |kind: &str| has_type.then(|| ("type".to_owned(), kind.into()));
    match entry {
        HostEntry::Command { program, arguments } => {
            let command = [
                ("command".to_owned(), program.as_str().into()),
                ("args".to_owned(), arguments.as_slice().into()),
            ];
            kind("stdio").into_iter().chain(command).collect()
        }
        HostEntry::Address(url) => {
            kind("http").into_iter().chain([(address.to_owned(), url.as_str().into())]).collect()
        }
    }
}

fn add_json(
    text: &str,
    section: &str,
    name: &str,
    members: Vec<(String, Value)>,
) -> anyhow::Result<String> {
    let empty = text.trim().is_empty();
    let root = parse_json(if empty { "{}\n" } else { text })?;
    let before = root.to_serde_value().unwrap_or_default();
    let object = root.object_value().context("the file does not hold an object")?;
    check_unique(&object, section)?;
    let servers = object
        .object_value_or_create(section)
        .with_context(|| format!("`{section}` is not an object"))?;
    check_unique(&servers, name)?;
    match servers.get(name) {
        Some(known) => match known.object_value() {
            Some(known) => merge(&known, &members)?,
            None => known.set_value(object_of(&members)),
        },
        None => {
            servers.append(name, object_of(&members));
        }
    }
    if root.to_serde_value().as_ref() == Some(&before) {
        return Ok(text.to_owned());
    }
    let mut after = root.to_string();
    if !after.ends_with('\n') && (empty || text.ends_with('\n')) {
        after.push('\n');
    }
    // Nothing else may have changed.
    let mut others = parse_json(&after)?.to_serde_value().unwrap_or_default();
    let mut expected = before;
    for value in [&mut others, &mut expected] {
        if let Some(servers) = value.get_mut(section).and_then(Value::as_object_mut) {
            servers.remove(name);
        }
        if value.get(section).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
            && let Some(members) = value.as_object_mut()
        {
            members.remove(section);
        }
    }
    anyhow::ensure!(
        others == expected,
        "the file cannot be changed safely; add the server by hand"
    );
    Ok(after)
}

/// Rejects a member that is there twice: hosts read either.
fn check_unique(object: &CstObject, name: &str) -> anyhow::Result<()> {
    let is_named = |member: &CstObjectProp| {
        member.name().and_then(|name| name.decoded_value().ok()).is_some_and(|known| known == name)
    };
    let count = object.properties().iter().filter(|member| is_named(member)).count();
    anyhow::ensure!(count < 2, "`{name}` is there {count} times; leave one of them");
    Ok(())
}

/// Changes how a server is reached. Other members, such as its environment, stay.
fn merge(known: &CstObject, members: &[(String, Value)]) -> anyhow::Result<()> {
    for key in ["type", "command", "args", "url", "httpUrl"] {
        check_unique(known, key)?;
        if let Some(other) = known.get(key)
            && !members.iter().any(|(name, _)| name == key)
        {
            other.remove();
        }
    }
    for (name, value) in members {
        match known.get(name) {
            Some(member) => {
                let before = member.value().and_then(|value| value.to_serde_value());
                if before.as_ref() != Some(value) {
                    member.set_value(input(value));
                }
            }
            None => {
                known.append(name, input(value));
            }
        }
    }
    Ok(())
}

fn object_of(members: &[(String, Value)]) -> CstInputValue {
    let members = members.iter().map(|(name, value)| (name.clone(), input(value)));
    CstInputValue::Object(members.collect())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        other => CstInputValue::String(other.as_str().unwrap_or_default().to_owned()),
    }
}

fn parse_json(text: &str) -> anyhow::Result<CstRootNode> {
    let options = ParseOptions { allow_comments: true, allow_trailing_commas: true, ..strict() };
    CstRootNode::parse(text, &options).map_err(|error| anyhow::anyhow!("it has an error: {error}"))
}

/// Options that accept standard JSON only.
fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    }
}

fn add_toml(text: &str, name: &str, entry: &HostEntry) -> anyhow::Result<String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error| anyhow::anyhow!("it has an error: {error}"))?;
    let servers = document.entry("mcp_servers").or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers.as_table_like_mut().context("`mcp_servers` is not a table")?;
    let values = match entry {
        HostEntry::Command { program, arguments } => {
            let arguments = arguments.iter().collect::<toml_edit::Array>();
            vec![("command", toml_edit::value(program)), ("args", toml_edit::value(arguments))]
        }
        HostEntry::Address(url) => vec![("url", toml_edit::value(url))],
    };
    match servers.get_mut(name).and_then(Item::as_table_like_mut) {
        // Members of the host's own, such as timeouts, stay.
        Some(known) => {
            for key in ["command", "args", "url"] {
                if !values.iter().any(|(name, _)| *name == key) {
                    known.remove(key);
                }
            }
            for (key, value) in values {
                if known.get(key).map(|known| known.to_string().trim().to_owned())
                    != Some(value.to_string().trim().to_owned())
                {
                    known.insert(key, value);
                }
            }
        }
        None => {
            let table: Table =
                values.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            servers.insert(name, Item::Table(table));
        }
    }
    let edited = document.to_string();
    // The parser makes all line ends the same.
    let line_ends = text.matches('\n').count();
    match text.matches("\r\n").count() {
        0 => Ok(edited),
        all if all == line_ends => Ok(edited.replace("\r\n", "\n").replace('\n', "\r\n")),
        _ => anyhow::bail!("its lines end in different ways; give all of them the same line end"),
    }
}

/// The lines that differ, with three lines around them.
pub(super) fn difference(before: &str, after: &str) -> String {
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let same = |(one, other): &(&&str, &&str)| one == other;
    let start = before.iter().zip(&after).take_while(same).count();
    let rest = before.len().min(after.len()) - start;
    let end = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(same).count();
    let mut lines = Vec::new();
    let context = start.saturating_sub(AROUND)..start;
    lines.extend(before[context].iter().map(|line| format!("  {line}")));
    lines.extend(before[start..before.len() - end].iter().map(|line| format!("- {line}")));
    lines.extend(after[start..after.len() - end].iter().map(|line| format!("+ {line}")));
    let behind = &after[after.len() - end..];
    lines.extend(behind.iter().take(AROUND).map(|line| format!("  {line}")));
    lines.join("\n")
}

/// Some editors on Windows begin files with it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Lines shown around a change.
const AROUND: usize = 3;

#[cfg(test)]
mod tests {
    use super::{HostEntry, add, difference};
    use crate::command::install::host::{Format, HostName};

    fn entry() -> HostEntry {
        HostEntry::Command { program: "/bin/mf".to_owned(), arguments: vec!["stdio".to_owned()] }
    }

    #[test]
    fn entries_are_added_to_every_format_and_the_rest_stays() {
        for host in HostName::ALL {
            let format = host.format();
            let new = add("", format, "flow", &entry()).unwrap();
            assert!(new.contains("flow") && new.contains("/bin/mf"), "{new}");
            assert_eq!(add(&new, format, "flow", &entry()).unwrap(), new, "twice is once");
            let address = HostEntry::Address("https://h/mcp".to_owned());
            let other = add(&new, format, "flow", &address).unwrap();
            assert!(other.contains("https://h/mcp") && !other.contains("/bin/mf"), "{other}");
        }
        let json = "// mine\n{\n\t\"theme\": \"dark\", // nice\n\t\"mcpServers\": {\n\t\t\"a\": \
                    {\"command\": \"x\"}, // first\n\t},\n}\n";
        let changed = add(json, HostName::Gemini.format(), "flow", &entry()).unwrap();
        for kept in ["// mine\n", "\"theme\": \"dark\", // nice", "\"a\": {\"command\": \"x\"}"] {
            assert!(changed.contains(kept), "{changed}");
        }
        let toml = "# mine\nmodel = \"m\" # nice\n\n[mcp_servers.a]\ncommand = \"x\" # first\n";
        let changed = add(toml, Format::Toml, "flow", &entry()).unwrap();
        assert!(changed.starts_with(toml) && changed.contains("[mcp_servers.flow]"), "{changed}");
    }

    /// Settings that a person has added beside the command stay, in every format.
    #[test]
    fn known_servers_keep_what_is_not_replaced() {
        for host in HostName::ALL {
            let text = match host.format() {
                Format::Json { section, address, .. } => format!(
                    "{{\n  \"{section}\": {{\n    \"flow\": {{\n      \"{address}\": \"http://old\",\n      \
                     \"env\": {{\"KEY\": \"mine\"}}, // kept\n      \"disabled\": true\n    }}\n  }}\n}}\n"
                ),
                Format::Toml => {
                    "[mcp_servers.flow]\nurl = \"http://old\"\ndisabled = true # kept\n\
                                 env = { KEY = \"mine\" }\n"
                        .to_owned()
                }
            };
            let changed = add(&text, host.format(), "flow", &entry()).unwrap();
            for kept in ["\"mine\"", "disabled", "kept", "/bin/mf"] {
                assert!(changed.contains(kept), "{changed}");
            }
            assert!(!changed.contains("http://old"), "{changed}");
            assert_eq!(add(&changed, host.format(), "flow", &entry()).unwrap(), changed);
        }
    }

    /// Files of Windows keep their line ends and byte order mark.
    #[test]
    fn line_ends_and_byte_order_marks_stay() {
        let json = "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n";
        let toml = "\u{feff}# mine\r\nmodel = \"m\"\r\n";
        for (format, text) in [(HostName::Cursor.format(), json), (Format::Toml, toml)] {
            let changed = add(text, format, "flow", &entry()).unwrap();
            assert_eq!(
                changed.matches('\n').count(),
                changed.matches("\r\n").count(),
                "{changed:?}"
            );
            assert!(changed.starts_with(&text[..10]) && changed.contains("/bin/mf"), "{changed:?}");
            assert_eq!(add(&changed, format, "flow", &entry()).unwrap(), changed);
        }
    }

    #[test]
    fn files_with_errors_are_not_changed() {
        for (format, text) in [
            (HostName::Cursor.format(), "{\"mcpServers\": {\"a\": }}"),
            (HostName::Cursor.format(), "{\"mcpServers\": {}"),
            (HostName::Cursor.format(), "{\"mcpServers\": []}"),
            (HostName::Cursor.format(), "[]"),
            (HostName::Vscode.format(), "{\"servers\" 1}"),
            (HostName::Cursor.format(), "{\"mcpServers\": {\"flow\": {}, \"flow\": {}}}"),
            (HostName::Cursor.format(), "{\"mcpServers\": {}, \"mcpServers\": {}}"),
            (
                HostName::Cursor.format(),
                "{\"mcpServers\": {\"flow\": {\"command\": \"a\", \"command\": \"b\"}}}",
            ),
            (Format::Toml, "model = \"m\"\r\n\n"),
            (Format::Toml, "model = \n"),
            (Format::Toml, "mcp_servers = 1\n"),
            (Format::Toml, "[a]\n[a]\n"),
        ] {
            let error = add(text, format, "flow", &entry()).unwrap_err();
            assert!(!error.to_string().is_empty(), "{text}");
        }
    }

    #[test]
    fn differences_show_the_lines_around_them() {
        assert_eq!(difference("a\nb\nc\n", "a\nb\nx\nc\n"), "  a\n  b\n+ x\n  c");
        assert_eq!(difference("", "x\n"), "+ x");
        assert_eq!(difference("a\nb\n", "a\nc\n"), "  a\n- b\n+ c");
    }
}
