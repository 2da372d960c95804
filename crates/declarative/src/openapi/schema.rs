//! Schemas of a description as JSON Schema 2020-12, with their references.

use serde_json::{Map, Value, json};

use super::target;

/// Schemas that an operation needs.
pub(super) struct Schemas<'a> {
    spec: &'a Value,
    /// Set for OpenAPI 3.0, whose schemas are not JSON Schema.
    is_3_0: bool,
    /// Definitions by their names, and their references.
    definitions: Map<String, Value>,
    names: Vec<(String, String)>,
    /// Rules that were left out, with the reasons.
    left_out: Vec<String>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(spec: &'a Value) -> Self {
        let version = spec["openapi"].as_str().unwrap_or_default();
        let is_3_0 = version.starts_with("3.0");
        Self { spec, is_3_0, definitions: Map::new(), names: Vec::new(), left_out: Vec::new() }
    }

    /// Returns the definitions, and the rules that were left out.
    pub(super) fn finish(self) -> (Map<String, Value>, Vec<String>) {
        (self.definitions, self.left_out)
    }

    /// Converts a schema; what it refers to is defined.
    pub(super) fn convert(&mut self, schema: &Value) -> Result<Value, String> {
        let Value::Object(members) = schema else {
            // In 3.1 a schema may be true or false.
            return Ok(if schema.is_boolean() { schema.clone() } else { json!({}) });
        };
        let mut converted = Map::new();
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let name = self.define(reference)?;
            converted.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
            // 3.0 ignores the siblings of a reference, except that people read them.
            if self.is_3_0 {
                let description = members.get_key_value("description");
                converted.extend(description.map(|(name, text)| (name.clone(), text.clone())));
                return Ok(converted.into());
            }
        }
        for (keyword, value) in members {
            match keyword.as_str() {
                "$ref" => {}
                "properties" | "patternProperties" | "dependentSchemas" | "$defs" => {
                    let mut schemas = Map::new();
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        if keyword == "patternProperties" && !self.can_match(name) {
                            continue;
                        }
                        schemas.insert(name.clone(), self.convert(schema)?);
                    }
                    converted.insert(keyword.clone(), schemas.into());
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    let mut schemas = Vec::new();
                    for schema in value.as_array().into_iter().flatten() {
                        schemas.push(self.convert(schema)?);
                    }
                    if !schemas.is_empty() {
                        converted.insert(keyword.clone(), schemas.into());
                    }
                }
                "items"
                | "not"
                | "additionalProperties"
                | "contains"
                | "propertyNames"
                | "if"
                | "then"
                | "else"
                | "unevaluatedProperties"
                | "unevaluatedItems" => {
                    converted.insert(keyword.clone(), self.convert(value)?);
                }
                // Read by OpenAPI only.
                "xml" | "discriminator" | "externalDocs" | "nullable" | "example" => {}
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => {}
                other if other.starts_with("x-") => {}
                _ => {
                    converted.insert(keyword.clone(), value.clone());
                }
            }
        }
        if self.is_3_0 {
            convert_3_0(members, &mut converted);
        }
        if let Some(pattern) = converted.get("pattern").and_then(Value::as_str)
            && !self.can_match(pattern)
        {
            converted.remove("pattern");
        }
        Ok(converted.into())
    }

    /// Returns whether a pattern can be matched in linear time, which look-around and back references
    /// cannot. One that cannot is left out.
    fn can_match(&mut self, pattern: &str) -> bool {
        let can = mcp_flow_workflow::Pattern::new(pattern, "").is_ok();
        let shown = mcp_flow_proto::text::truncate(pattern, SHOWN);
        let message = format!("the pattern {shown} is not checked: look-around is not supported");
        if !can && !self.left_out.contains(&message) {
            self.left_out.push(message);
        }
        can
    }

    /// Defines what a reference refers to, once; returns its name.
    fn define(&mut self, reference: &str) -> Result<String, String> {
        if let Some((_, name)) = self.names.iter().find(|(known, _)| known == reference) {
            return Ok(name.clone());
        }
        let target = target(self.spec, reference)
            .ok_or_else(|| format!("the reference {reference} cannot be resolved"))?;
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain: String = last
            .chars()
            .map(|one| if one.is_ascii_alphanumeric() || "_-.".contains(one) { one } else { '_' })
            .collect();
        let mut name = if plain.is_empty() { "schema".to_owned() } else { plain.clone() };
        let mut number = 2;
        while self.names.iter().any(|(_, known)| *known == name) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        if self.names.len() >= MAX_DEFINITIONS {
            return Err(format!("it needs more than {MAX_DEFINITIONS} schemas"));
        }
        // Known before it is converted, so that recursion ends here.
        self.names.push((reference.to_owned(), name.clone()));
        self.definitions.insert(name.clone(), Value::Null);
        let converted = self.convert(target)?;
        self.definitions.insert(name.clone(), converted);
        Ok(name)
    }
}

/// Translates keywords of 3.0 that mean something else in JSON Schema.
fn convert_3_0(members: &Map<String, Value>, converted: &mut Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if members.get(flag) == Some(&Value::Bool(true))
            && let Some(limit) = converted.remove(bound)
        {
            converted.insert(flag.to_owned(), limit);
        }
    }
    if members.get("nullable") == Some(&Value::Bool(true)) {
        if let Some(Value::String(kind)) = converted.get("type").cloned() {
            converted.insert("type".to_owned(), json!([kind, "null"]));
        }
        if let Some(Value::Array(options)) = converted.get_mut("enum")
            && !options.contains(&Value::Null)
        {
            options.push(Value::Null);
        }
    }
}

/// Characters of a pattern that a report shows.
const SHOWN: usize = 80;

const MAX_DEFINITIONS: usize = 2_000;
