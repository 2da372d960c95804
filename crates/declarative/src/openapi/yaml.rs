//! Writing YAML that people edit.

use std::fmt::Write as _;

use serde_json::Value;

/// Writes a value as YAML, in block style.
pub fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    write_block(value, 0, &mut text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.trim_start_matches('\n').to_owned()
}

/// Writes a value after its name or dash, with the line break before nested ones.
fn write_block(value: &Value, depth: usize, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                start_line(depth, text);
                write_key(name, text);
                write_member(member, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                start_line(depth, text);
                text.push('-');
                match item {
                    Value::Object(members) if !members.is_empty() && !is_short(item) => {
                        // The first member is on the line of the dash.
                        let mut inner = String::new();
                        write_block(item, depth + 1, &mut inner);
                        let indent = "  ".repeat(depth + 1);
                        let inner = inner.trim_start_matches('\n');
                        text.push(' ');
                        text.push_str(inner.strip_prefix(&indent).unwrap_or(inner));
                    }
                    item => write_member(item, depth, text),
                }
            }
        }
        scalar => text.push_str(&flow(scalar)),
    }
}

fn write_member(member: &Value, depth: usize, text: &mut String) {
    match member {
        Value::String(long) if is_block_text(long) => {
            text.push_str(if long.ends_with('\n') { " |" } else { " |-" });
            for line in long.trim_end_matches('\n').split('\n') {
                text.push('\n');
                if !line.is_empty() {
                    text.push_str(&"  ".repeat(depth + 1));
                    text.push_str(line);
                }
            }
        }
        nested @ (Value::Object(_) | Value::Array(_)) if !is_short(nested) => {
            write_block(nested, depth + 1, text);
        }
        inline => {
            text.push(' ');
            text.push_str(&flow(inline));
        }
    }
}

fn start_line(depth: usize, text: &mut String) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
}

fn write_key(name: &str, text: &mut String) {
    match is_plain(name) {
        true => text.push_str(name),
        false => text.push_str(&quoted(name)),
    }
    text.push(':');
}

/// Writes a value in flow style, which is JSON with plain texts.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| {
                let name = if is_plain(name) { name.clone() } else { quoted(name) };
                format!("{name}: {}", flow(member))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    // JSON strings are YAML, except for a few characters that YAML must escape.
    let mut escaped = String::new();
    for character in serde_json::to_string(text).unwrap_or_default().chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                let _ = write!(escaped, "\\u{:04x}", character as u32);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns whether a text means itself without quotes, anywhere.
fn is_plain(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./ ".contains(&byte);
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    starts_well
        && text.len() <= 80
        && text.bytes().all(is_word)
        && !text.ends_with(' ')
        && !text.contains("  ")
        && !words.contains(&text.to_ascii_lowercase().as_str())
}

fn is_short(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_array() && !value.is_object();
    let are_scalars = match value {
        Value::Array(items) => items.iter().all(is_scalar),
        Value::Object(members) => members.values().all(is_scalar),
        _ => true,
    };
    are_scalars && flow(value).len() <= 70
}

/// Returns whether a text can be written as lines.
fn is_block_text(text: &str) -> bool {
    let is_line = |line: &str| {
        line.trim_end() == line
            && !line.contains(|one: char| {
                one.is_control() || matches!(one, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{85}')
            })
    };
    text.contains('\n')
        && !text.starts_with(char::is_whitespace)
        && !text.ends_with("\n\n")
        && text.split('\n').all(is_line)
}

#[cfg(test)]
mod tests {
    use super::to_yaml;
    use mcp_flow_workflow::Format;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back() {
        let value = json!({
            "tools": [
                {"name": "a.b", "description": "One\n\nTwo: {{x}}\n", "empty": {}, "list": [],
                 "input": {"properties": {"on": {"type": ["string", "null"], "default": "no"},
                    "a b: c": {"enum": ["1", 1, 1.5, true, null, "", "~", "- x", "#", "é\u{2028}"]}}}},
                {"nested": [[1, [2]], [{"a": {"b": {"c": "d"}}}]], "text": " lead\ntrail \n", "tab": "a\tb"},
                "plain", "x\ny", -5,
            ],
            "$ref": "#/$defs/x", "long": "word ".repeat(40), "slash": "/a/b", "crlf": "a\r\nb",
        });
        let text = to_yaml(&value);
        assert_eq!(Format::Yaml.parse(&text).unwrap(), value, "{text}");
    }
}
