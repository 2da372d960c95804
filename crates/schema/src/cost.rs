//! Cost of a check, bounded before it runs.
//!
//! References let a schema of a few lines require an astronomic number of checks, and its author is
//! often not the one who runs it.

use std::collections::HashMap;

use serde_json::Value;

/// Returns whether a schema can be checked in reasonable time: the subschemas applied to one
/// location of a value, references followed, are not too many, and refer to nothing outside. A
/// recursive reference is followed once; its cost depends on the value ([`is_affordable_for`]).
///
/// ```
/// use mcp_flow_schema::is_affordable;
/// use serde_json::json;
///
/// let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}}});
/// assert!(is_affordable(&tree));
/// assert!(!is_affordable(&json!({"$ref": "https://elsewhere.example/schema"})));
/// ```
pub fn is_affordable(schema: &Value) -> bool {
    schema_cost(schema).is_some_and(|cost| cost <= MAX_CHECKS)
}

/// The largest number of subschemas applied to one location of a value and to what contains it;
/// `None` if it cannot be determined.
pub fn schema_cost(schema: &Value) -> Option<u64> {
    Estimator::of(schema).cost(schema, ENDLESS, 0).map(Cost::total)
}

/// Returns whether a schema that can be checked in reasonable time refers to itself, so that the cost
/// of a check depends on the value; `None` if it cannot.
#[cfg(feature = "complete")]
pub(crate) fn affordable_recursion(schema: &Value) -> Option<bool> {
    let mut estimator = Estimator::of(schema);
    let cost = estimator.cost(schema, ENDLESS, 0)?;
    (cost.total() <= MAX_CHECKS).then_some(estimator.is_recursive)
}

/// Returns whether a value can be checked against a schema in reasonable time. A schema that refers
/// to itself twice doubles the work with each level of the value.
///
/// ```
/// use mcp_flow_schema::is_affordable_for;
/// use serde_json::json;
///
/// let schema = json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
/// assert!(is_affordable_for(&schema, &json!([[1, 2], [3]])));
///
/// let deep = (0..50).fold(json!(1), |inner, _| json!([inner]));
/// assert!(!is_affordable_for(&schema, &deep));
/// ```
pub fn is_affordable_for(schema: &Value, value: &Value) -> bool {
    let (mut depth, mut values) = (0, 0);
    let mut waiting = vec![(value, 0)];
    while let Some((value, level)) = waiting.pop() {
        depth = depth.max(level);
        values += 1;
        match value {
            Value::Array(items) => waiting.extend(items.iter().map(|item| (item, level + 1))),
            Value::Object(members) => {
                waiting.extend(members.values().map(|member| (member, level + 1)));
            }
            _ => {}
        }
    }
    let cost = Estimator::of(schema).cost(schema, depth, 0).map(Cost::total);
    cost.is_some_and(|cost| cost <= MAX_CHECKS && cost.saturating_mul(values) <= MAX_TOTAL_CHECKS)
}

/// The cost of checking a value.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Subschemas applied to the value itself.
    own: u64,
    /// Subschemas applied to one of its items, recursively, if it is an array.
    items: u64,
    /// Subschemas applied to one of its members, recursively, if it is an object.
    members: u64,
}

impl Cost {
    fn add(&mut self, other: Self) {
        self.own = self.own.saturating_add(other.own);
        self.items = self.items.saturating_add(other.items);
        self.members = self.members.saturating_add(other.members);
    }

    /// No value is both an array and an object.
    fn total(self) -> u64 {
        self.own.saturating_add(self.items.max(self.members))
    }
}

struct Estimator<'a> {
    root: &'a Value,
    /// Costs by address of a subschema and remaining depth of the value; one being computed counts
    /// as zero, and is `None` so far.
    known: HashMap<(*const Value, usize), Option<Cost>>,
    /// Set if a schema contains itself.
    is_recursive: bool,
}

impl<'a> Estimator<'a> {
    fn of(root: &'a Value) -> Self {
        Self { root, known: HashMap::new(), is_recursive: false }
    }

    /// The cost of a schema for a value of this nesting depth; `None` if it cannot be determined.
    fn cost(&mut self, schema: &'a Value, levels: usize, depth: usize) -> Option<Cost> {
        let Value::Object(members) = schema else {
            return Some(Cost { own: schema.is_boolean().into(), ..Cost::default() });
        };
        let key = (std::ptr::from_ref(schema), levels);
        if let Some(known) = self.known.get(&key) {
            self.is_recursive |= known.is_none();
            return Some(known.unwrap_or_default());
        }
        if depth > MAX_DEPTH || self.known.len() > MAX_KNOWN {
            return None;
        }
        self.known.insert(key, None);
        let mut cost = Cost { own: 1, ..Cost::default() };
        for (name, value) in members {
            match (name.as_str(), value) {
                ("$ref", Value::String(target)) => {
                    let target = self.root.pointer(target.strip_prefix('#')?)?;
                    cost.add(self.cost(target, levels, depth + 1)?);
                }
                ("$ref" | "$dynamicRef" | "$recursiveRef" | "$id" | "id", _) if depth > 0 => {
                    return None;
                }
                ("$dynamicRef" | "$recursiveRef", _) => return None,
                ("$defs" | "definitions" | "enum" | "const" | "default" | "examples", _) => {}
                // A member has one name and an item one index, so one of these applies.
                ("properties", Value::Object(parts)) => {
                    let inside = self.inside(parts.values(), levels, depth, u64::max)?;
                    cost.add(Cost { members: inside, ..Cost::default() });
                }
                ("prefixItems" | "items", Value::Array(parts)) => {
                    let inside = self.inside(parts, levels, depth, u64::max)?;
                    cost.add(Cost { items: inside, ..Cost::default() });
                }
                ("patternProperties", Value::Object(parts)) => {
                    let inside = self.inside(parts.values(), levels, depth, u64::saturating_add)?;
                    cost.add(Cost { members: inside, ..Cost::default() });
                }
                ("additionalProperties" | "unevaluatedProperties" | "propertyNames", part) => {
                    let inside = self.inside([part], levels, depth, u64::max)?;
                    cost.add(Cost { members: inside, ..Cost::default() });
                }
                ("items" | "contains" | "additionalItems" | "unevaluatedItems", part) => {
                    let inside = self.inside([part], levels, depth, u64::max)?;
                    cost.add(Cost { items: inside, ..Cost::default() });
                }
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    for part in parts.values() {
                        cost.add(self.cost(part, levels, depth + 1)?);
                    }
                }
                (_, Value::Array(parts)) => {
                    for part in parts {
                        cost.add(self.cost(part, levels, depth + 1)?);
                    }
                }
                (_, part @ Value::Object(_)) => cost.add(self.cost(part, levels, depth + 1)?),
                _ => {}
            }
        }
        self.known.insert(key, Some(cost));
        Some(cost)
    }

    /// The cost of subschemas applied to the contents of a value.
    fn inside(
        &mut self,
        parts: impl IntoIterator<Item = &'a Value>,
        levels: usize,
        depth: usize,
        together: fn(u64, u64) -> u64,
    ) -> Option<u64> {
        let levels = match levels {
            0 => return Some(0),
            ENDLESS => ENDLESS,
            levels => levels - 1,
        };
        let mut cost = 0;
        for part in parts {
            cost = together(cost, self.cost(part, levels, depth + 1)?.total());
        }
        Some(cost)
    }
}

/// For values that nest as deep as the schema can follow.
const ENDLESS: usize = usize::MAX;

/// Most subschemas applied to one location, each counted as often as it is referred to.
const MAX_CHECKS: u64 = 200_000;

/// The same for all locations of a value.
const MAX_TOTAL_CHECKS: u64 = 100_000_000;

/// Most subschemas considered, each counted for every level of the value.
const MAX_KNOWN: usize = 200_000;

/// Deepest nesting of subschemas, references followed.
const MAX_DEPTH: usize = 256;

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::is_affordable;

    /// A chain of definitions, each of which refers to the next this many times.
    fn chain(length: usize, times: usize) -> Value {
        let mut defs = Map::new();
        for index in 0..length {
            let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
            defs.insert(format!("d{index}"), json!({"allOf": vec![next; times]}));
        }
        defs.insert(format!("d{length}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/d0", "$defs": defs})
    }

    /// PAT-027: schemas that would run forever or exhaust the stack are detected beforehand.
    #[test]
    fn the_cost_of_a_schema_is_known_beforehand() {
        let wide: Map<String, Value> =
            (0..10_000).map(|index| (format!("p{index}"), json!({"type": "string"}))).collect();
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
