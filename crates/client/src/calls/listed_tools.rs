//! Tools as last listed, and validation of their results against the output schemas.
//!
//! The schemas come from the server and are untrusted: `mcp_flow_schema` bounds what checking them
//! may cost. A result that cannot be checked is rejected like one that violates the schema.

use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use mcp_flow_proto::Raw;
use mcp_flow_proto::model::ToolDefinition;
use mcp_flow_schema::UntrustedSchema;
use parking_lot::Mutex;
use serde_json::Value;

/// The tools of the last `tools/list`, by name.
#[derive(Debug, Default)]
pub(crate) struct ListedTools {
    state: Mutex<State>,
    /// Held while a call lists the tools, so that concurrent calls list them once.
    pub(crate) listing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    tools: HashMap<String, Arc<ListedTool>>,
    /// Number of times the list was cleared.
    generation: u64,
    /// The whole list was read since it was cleared.
    is_complete: bool,
}

impl ListedTools {
    pub(crate) fn find(&self, name: &str) -> Option<Arc<ListedTool>> {
        self.state.lock().tools.get(name).cloned()
    }

    /// Adds a tool, unless there are too many.
    pub(crate) fn add(&self, tool: &ToolDefinition, most: usize) {
        let mut state = self.state.lock();
        if state.tools.len() < most || state.tools.contains_key(&tool.name) {
            state.tools.insert(tool.name.clone(), Arc::new(ListedTool::new(tool.clone())));
        }
    }

    /// Forgets all tools, because the list has changed.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.tools.clear();
        state.generation += 1;
        state.is_complete = false;
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// Records that the whole list was read, unless it has changed since `generation`.
    pub(crate) fn complete(&self, generation: u64) {
        let mut state = self.state.lock();
        state.is_complete = state.generation == generation;
    }

    /// Returns whether listing again would not find more tools.
    pub(crate) fn is_complete(&self) -> bool {
        self.state.lock().is_complete
    }
}

/// One tool with its compiled output schema.
#[derive(Debug)]
pub(crate) struct ListedTool {
    pub(crate) definition: Arc<ToolDefinition>,
    /// Compiled when it is first needed.
    output: OnceLock<Result<UntrustedSchema, String>>,
}

impl ListedTool {
    fn new(definition: ToolDefinition) -> Self {
        Self { definition: Arc::new(definition), output: OnceLock::new() }
    }

    /// Describes how a result of `tools/call` violates the tool's output schema; `None` if it does
    /// not, or if the tool has no such schema, has failed or has not finished.
    pub(crate) fn output_fault(&self, result: Raw<'_>) -> Option<String> {
        let schema = self.definition.output_schema.as_ref()?;
        let [structured, is_error, kind] =
            result.members(["structuredContent", "isError", "resultType"]).ok()?;
        let has_failed = is_error.and_then(|raw| raw.decode().ok()).unwrap_or(false);
        let is_interim = kind.and_then(Raw::as_text).is_some_and(|kind| kind != "complete");
        if has_failed || is_interim {
            return None;
        }
        let Some(structured) = structured else {
            return Some("structuredContent is missing".to_owned());
        };
        let value = match mcp_flow_schema::build(structured) {
            Ok(value) => value,
            Err(error) => return Some(format!("structuredContent cannot be read: {error}")),
        };
        let compile = || UntrustedSchema::compile(&Value::Object(schema.clone()));
        let schema = match self.output.get_or_init(compile) {
            Ok(schema) => schema,
            Err(reason) => {
                let reason = crate::sanitize::shorten(reason, 200);
                return Some(format!("the schema cannot be used: {reason}"));
            }
        };
        match schema.violations(&value, "structuredContent", MAX_FAULTS) {
            Ok(violations) if violations.is_empty() => None,
            Ok(violations) => {
                let faults = violations.into_iter().map(|violation| violation.sentence);
                Some(faults.collect::<Vec<_>>().join("; "))
            }
            Err(_) => Some("checking it would take too long".to_owned()),
        }
    }
}

/// Maximum number of violations in one error.
const MAX_FAULTS: usize = 8;

#[cfg(test)]
mod tests {
    use mcp_flow_proto::Raw;
    use mcp_flow_proto::model::ToolDefinition;
    use serde_json::{Map, Value, json};

    use super::{ListedTool, ListedTools};

    fn tool(schema: Option<Value>) -> ListedTool {
        let output_schema = schema.map(|schema| serde_json::from_value(schema).unwrap());
        ListedTool::new(ToolDefinition { output_schema, ..ToolDefinition::default() })
    }

    fn fault(schema: Option<Value>, result: &Value) -> Option<String> {
        tool(schema).output_fault(Raw::Json(&result.to_string()))
    }

    #[test]
    fn results_are_checked_against_the_output_schema() {
        let schema = json!({"type": "object", "properties": {"rows": {"type": "array",
            "items": {"type": "integer"}}}, "required": ["rows"]});
        for (result, expected) in [
            (json!({"structuredContent": {"rows": [1, 2]}}), None),
            (json!({"content": []}), Some("structuredContent is missing")),
            (json!({"structuredContent": {"rows": [1, "x"]}}), Some("/rows/1: ")),
            (json!({"structuredContent": {}}), Some("\"rows\" is a required property")),
            (json!({"structuredContent": null}), Some("structuredContent is not of type")),
            (json!({"structuredContent": 7, "isError": true}), None),
            (json!({"content": [], "isError": true}), None),
            (json!({"resultType": "task", "taskId": "a"}), None),
            (json!({"resultType": "complete"}), Some("structuredContent is missing")),
        ] {
            let found = fault(Some(schema.clone()), &result);
            match expected {
                None => assert_eq!(found, None, "{result}"),
                Some(part) => assert!(
                    found.as_ref().is_some_and(|found| found.contains(part)),
                    "{result}: {found:?}"
                ),
            }
            assert_eq!(fault(None, &result), None, "{result}");
        }
    }

    /// Neither patterns nor references in a server's schema cost unbounded time or memory; a schema
    /// that cannot be used rejects the result instead of accepting everything.
    #[test]
    fn hostile_output_schemas_have_bounded_cost() {
        let next = |place: usize| json!({"$ref": format!("#/$defs/d{}", place + 1)});
        let twice = |place| (format!("d{place}"), json!({"allOf": [next(place), next(place)]}));
        let defs: Map<_, _> = (0..60).map(twice).collect();
        for schema in [
            json!({"$ref": "#/$defs/d0", "$defs": defs}),
            json!({"$ref": "https://attacker.example/schema"}),
            json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            json!({"properties": {"a": {"pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"}}}),
            json!({"type": 7}),
        ] {
            let found = fault(Some(schema.clone()), &json!({"structuredContent": {"a": "a"}}));
            assert!(found.is_some_and(|found| found.contains("schema cannot be used")), "{schema}");
        }
        let part = json!({"items": {"$ref": "#"}});
        let schema = json!({"anyOf": [part, part, {"type": "string"}]});
        let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
        let found = fault(Some(schema), &json!({"structuredContent": deep}));
        assert_eq!(found.as_deref(), Some("checking it would take too long"));
    }

    #[test]
    fn a_list_that_changes_while_it_is_read_is_not_complete() {
        let tools = ListedTools::default();
        let generation = tools.generation();
        tools.clear();
        tools.complete(generation);
        assert!(!tools.is_complete());
        tools.complete(tools.generation());
        assert!(tools.is_complete());
    }
}
