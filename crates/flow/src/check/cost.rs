//! What it costs at most to hold a value to a schema, told before it is done.
//!
//! References let a schema of a few lines ask for more checks than there are atoms. Who wrote it is
//! often not who runs it.

use std::collections::HashMap;

use serde_json::Value;

/// Whether a schema can be checked in reasonable time: its parts, references followed, are not too
/// many, and lead nowhere outside. A reference that leads back to where it stands is followed once,
/// as what is checked gets smaller on the way, or the checker stops by itself.
///
/// ```
/// use mcp_flow_flow::is_affordable;
/// use serde_json::json;
///
/// let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}}});
/// assert!(is_affordable(&tree));
/// assert!(!is_affordable(&json!({"$ref": "https://elsewhere.example/schema"})));
/// ```
pub fn is_affordable(schema: &Value) -> bool {
    let mut reckoning = Reckoning { root: schema, known: HashMap::new() };
    reckoning.cost(schema, 0).is_some_and(|cost| cost <= MOST_CHECKS)
}

struct Reckoning<'a> {
    root: &'a Value,
    /// By where a schema is; one that is being reckoned costs nothing more.
    known: HashMap<*const Value, u64>,
}

impl<'a> Reckoning<'a> {
    /// How many parts are checked at most; none if that cannot be known.
    fn cost(&mut self, schema: &'a Value, depth: usize) -> Option<u64> {
        let Value::Object(members) = schema else { return Some(schema.is_boolean().into()) };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Some(*known);
        }
        if depth > DEEPEST {
            return None;
        }
        self.known.insert(std::ptr::from_ref(schema), 0);
        let mut cost: u64 = 1;
        for (name, value) in members {
            let parts: Vec<&Value> = match (name.as_str(), value) {
                ("$ref", Value::String(place)) => {
                    vec![self.root.pointer(place.strip_prefix('#')?)?]
                }
                ("$ref" | "$dynamicRef" | "$recursiveRef" | "$id" | "id", _) if depth > 0 => {
                    return None;
                }
                ("$dynamicRef" | "$recursiveRef", _) => return None,
                ("$defs" | "definitions" | "enum" | "const" | "default" | "examples", _) => {
                    continue;
                }
                (
                    "properties" | "patternProperties" | "dependentSchemas" | "dependencies",
                    Value::Object(parts),
                ) => parts.values().collect(),
                (_, Value::Array(parts)) => parts.iter().collect(),
                (_, part @ Value::Object(_)) => vec![part],
                _ => continue,
            };
            for part in parts {
                cost = cost.saturating_add(self.cost(part, depth + 1)?);
            }
        }
        self.known.insert(std::ptr::from_ref(schema), cost);
        Some(cost)
    }
}

/// How many parts a schema may have, each counted as often as it is referred to.
const MOST_CHECKS: u64 = 200_000;

/// How deep parts may lie in each other, references followed.
const DEEPEST: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::is_affordable;

    /// Definitions, each of which refers to the next so many times.
    fn chain(length: usize, times: usize) -> Value {
        let mut defs = Map::new();
        for place in 0..length {
            let next = json!({"$ref": format!("#/$defs/d{}", place + 1)});
            defs.insert(format!("d{place}"), json!({"allOf": vec![next; times]}));
        }
        defs.insert(format!("d{length}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    /// PAT-027: what would take for ever, or all the stack there is, is known beforehand.
    #[test]
    fn the_cost_of_a_schema_is_known_beforehand() {
        let wide: Map<String, Value> =
            (0..10_000).map(|place| (format!("p{place}"), json!({"type": "string"}))).collect();
        for (schema, expected) in [
            (json!(true), true),
            (json!({"type": "object", "properties": wide}), true),
            (json!({"properties": {"next": {"$ref": "#"}}}), true),
            (json!({"allOf": [{"$ref": "#"}]}), true),
            (json!({"properties": {"$ref": {"type": "string"}, "id": {"type": "string"}}}), true),
            (json!({"$id": "https://a.example/mine", "type": "object"}), true),
            (chain(8, 2), true),
            (chain(40, 2), false),
            (chain(100_000, 1), false),
            (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), false),
            (json!({"properties": {"a": {"$ref": "#/nowhere"}}}), false),
            (json!({"properties": {"a": {"$dynamicRef": "#a"}}}), false),
            (json!({"$defs": {"a": {"$id": "b", "$ref": "b"}}, "$ref": "#/$defs/a"}), false),
        ] {
            let shown: String = schema.to_string().chars().take(100).collect();
            assert_eq!(is_affordable(&schema), expected, "{shown}");
        }
    }
}
