//! Tool arguments repeated as HTTP headers, as marked with `x-mcp-header` in the input schema.

use mcp_flow_proto::model::ToolDefinition;
use serde_json::{Map, Value};

/// Header names, without their prefix, and values for a call. The error says why the tool must not
/// be used over HTTP.
pub(crate) fn values(
    tool: &ToolDefinition,
    arguments: &Map<String, Value>,
) -> Result<Vec<(String, String)>, String> {
    let mut values = Vec::new();
    for HeaderArgument { header, path } in marked(tool)? {
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

/// The reason why a tool must not be used over HTTP, if its marks are invalid.
pub(crate) fn fault(tool: &ToolDefinition) -> Option<String> {
    marked(tool).err()
}

struct HeaderArgument<'a> {
    header: &'a str,
    path: Vec<&'a str>,
}

fn marked(tool: &ToolDefinition) -> Result<Vec<HeaderArgument<'_>>, String> {
    let mut found: Vec<HeaderArgument<'_>> = Vec::new();
    let properties = tool.input_schema.get("properties");
    collect(properties, &mut Vec::new(), &mut found)?;
    let elsewhere = tool.input_schema.iter().filter(|(name, _)| *name != "properties");
    for (_, schema) in elsewhere {
        forbid(schema)?;
    }
    let mut names: Vec<_> = found.iter().map(|one| one.header.to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("x-mcp-header {} occurs twice", pair[0])),
        None => Ok(found),
    }
}

fn collect<'a>(
    properties: Option<&'a Value>,
    path: &mut Vec<&'a str>,
    found: &mut Vec<HeaderArgument<'a>>,
) -> Result<(), String> {
    for (name, schema) in properties.and_then(Value::as_object).into_iter().flatten() {
        let Some(schema) = schema.as_object() else { continue };
        path.push(name);
        if let Some(header) = schema.get(MARK) {
            let header = header.as_str().filter(|header| is_token(header));
            let header = header.ok_or_else(|| format!("{name}: invalid header name"))?;
            let kind = schema.get("type").and_then(Value::as_str);
            if !matches!(kind, Some("string" | "integer" | "boolean")) {
                return Err(format!("{name}: only strings, integers and booleans can be headers"));
            }
            found.push(HeaderArgument { header, path: path.clone() });
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

/// Rejects marks outside of `properties`, which not every call has to pass.
fn forbid(schema: &Value) -> Result<(), String> {
    match schema {
        Value::Object(members) if members.contains_key(MARK) => {
            Err("x-mcp-header is allowed in `properties` only".to_owned())
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
    fn marked_arguments_are_found_and_invalid_marks_rejected() {
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
