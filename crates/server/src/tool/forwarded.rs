//! Tools that another server defines and runs.

use mcp_flow_proto::Raw;
use mcp_flow_proto::model::ToolDefinition;
use mcp_flow_schema::Schema;
use serde_json::{Value, json};

use super::{BadTool, Tool, header_argument, is_valid_name};
use crate::context::Context;
use crate::handler::Reply;
use crate::permissions::PermissionKind;

impl Tool {
    /// Creates a tool that another server defines. Its definition is listed as it is; the other
    /// server validates the arguments, which are an object here.
    pub fn forwarded(
        mut definition: ToolDefinition,
        function: impl Fn(&Context, Raw<'_>) -> Reply + Send + Sync + 'static,
    ) -> Result<Self, BadTool> {
        let name = &definition.name;
        if !is_valid_name(name) {
            return Err(BadTool::Name(name.clone()));
        }
        let schema = Schema::compile(&json!({"type": "object"}))
            .map_err(|reason| BadTool::Schema { name: name.clone(), which: "input", reason })?;
        // Required of every definition.
        definition.input_schema.entry("type").or_insert_with(|| Value::from("object"));
        let header_arguments = header_argument::find(&definition.input_schema);
        Ok(Self {
            definition,
            schema,
            output_schema: None,
            header_arguments,
            kind: PermissionKind::Tool,
            function: Box::new(move |context, arguments| Ok(function(context, arguments))),
        })
    }
}
