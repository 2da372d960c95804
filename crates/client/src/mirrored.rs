//! Arguments that are repeated in headers, where a tool marks them with `x-mcp-header`.

use mcp_flow_proto::model::ToolDefinition;
use serde_json::{Map, Value};

/// What to repeat of a call: the names of headers, without their prefix, and their values. An
/// error says why the tool may not be used over HTTP at all.
pub(crate) fn values(
    tool: &ToolDefinition,
    arguments: &Map<String, Value>,
) -> Result<Vec<(String, String)>, String> {
    let mut values = Vec::new();
    for Marked { header, path } in marked(tool)? {
        let found = path.iter().try_fold(None::<&Value>, |within, name| match within {
            None => Some(arguments.get(*name)),
            Some(within) => Some(within.get(*name)),
        });
        match found.flatten() {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => values.push((header.to_owned(), text.clone())),
            Some(Value::Bool(flag)) => values.push((header.to_owned(), flag.to_string())),
            Some(Value::Number(number)) => values.push((header.to_owned(), number.to_string())),
            Some(_) => {}
        }
    }
    Ok(values)
}

/// Why a tool may not be used over HTTP: its marks break the rules.
pub(crate) fn fault(tool: &ToolDefinition) -> Option<String> {
    marked(tool).err()
}

struct Marked<'a> {
    header: &'a str,
    path: Vec<&'a str>,
}

fn marked(tool: &ToolDefinition) -> Result<Vec<Marked<'_>>, String> {
    let mut found: Vec<Marked<'_>> = Vec::new();
    let properties = tool.input_schema.get("properties");
    collect(properties, &mut Vec::new(), &mut found)?;
    let elsewhere = tool.input_schema.iter().filter(|(name, _)| *name != "properties");
    for (_, schema) in elsewhere {
        forbid(schema)?;
    }
    let mut names: Vec<_> = found.iter().map(|one| one.header.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("the header {} is used twice", pair[0])),
        None => Ok(found),
    }
}

fn collect<'a>(
    properties: Option<&'a Value>,
    path: &mut Vec<&'a str>,
    found: &mut Vec<Marked<'a>>,
) -> Result<(), String> {
    for (name, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        let Some(schema) = schema.as_object() else { continue };
        path.push(name);
        if let Some(header) = schema.get(MARK) {
            let header = header.as_str().filter(|header| is_token(header));
            let header = header.ok_or_else(|| format!("{name}: the name of its header is bad"))?;
            let kind = schema.get("type").and_then(Value::as_str);
            if !matches!(kind, Some("string" | "integer" | "boolean")) {
                return Err(format!("{name}: only texts, integers and booleans can be headers"));
            }
            found.push(Marked { header, path: path.clone() });
        }
        collect(schema.get("properties"), path, found)?;
        for (_, within) in schema.iter().filter(|(name, _)| *name != "properties" && *name != MARK)
        {
            forbid(within)?;
        }
        path.pop();
    }
    Ok(())
}

/// Marks may only be where every call passes.
fn forbid(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Object(members) if members.contains_key(MARK) => {
            Err("a header is marked where it cannot be reached by properties alone".to_owned())
        }
        Value::Object(members) => members.values().try_for_each(forbid),
        Value::Array(items) => items.iter().try_for_each(forbid),
        _ => Ok(()),
    }
}

fn is_token(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 128 && name.bytes().all(is_part)
}

const MARK: &str = "x-mcp-header";

#[cfg(test)]
mod tests {
    use super::{fault, values};
    use mcp_flow_proto::model::ToolDefinition;
    use serde_json::{Value, json};

    #[test]
    fn marked_arguments_are_found_and_bad_marks_too() {
        let tool = |schema: Value| ToolDefinition {
            input_schema: schema.as_object().cloned().unwrap_or_default(),
            ..ToolDefinition::default()
        };
        let good = tool(json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {
                "count": {"type": "integer", "x-mcp-header": "Count"}}},
            "flag": {"type": "boolean", "x-mcp-header": "Flag"},
        }}));
        let arguments = json!({"region": "eu", "deep": {"count": 7}, "flag": null});
        let found = values(&good, arguments.as_object().unwrap()).unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found, [pair("Region", "eu"), pair("Count", "7")]);
        for bad in [
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"},
                "b": {"type": "string", "x-mcp-header": "a"}}}),
            json!({"properties": {"a": {"type": "array",
                "items": {"type": "string", "x-mcp-header": "A"}}}}),
            json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
        ] {
            assert!(fault(&tool(bad.clone())).is_some(), "{bad}");
        }
    }
}
