//! Definitions that an upstream lists.

use mcp_flow_client::{Client, Error, sanitize};
use mcp_flow_proto::model::{
    Meta, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};
use serde_json::{Map, Value, json};

use crate::settings::UpstreamSettings;

/// Definitions of one upstream, as it listed them last.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Definitions {
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) prompts: Vec<PromptDefinition>,
    pub(crate) resources: Vec<ResourceDefinition>,
    pub(crate) templates: Vec<TemplateDefinition>,
}

impl Definitions {
    /// Lists everything that the upstream declares.
    pub(crate) async fn fetch(client: &Client) -> Result<Self, Error> {
        // Lists are fetched because they may have changed, whatever the server said about caching.
        client.clear_cache();
        let declared = client.server().await?.capabilities.clone();
        let mut found = Self { tools: Self::fetch_tools(client).await?, ..Self::default() };
        if declared.prompts.is_some() {
            found.prompts = client.prompts().all().await?;
            found.prompts.iter_mut().for_each(|prompt| strip_protocol_members(&mut prompt.meta));
        }
        if declared.resources.is_some() {
            found.resources = client.resources().all().await?;
            for resource in &mut found.resources {
                strip_protocol_members(&mut resource.description.meta);
            }
            // Many servers with resources have no method for templates.
            found.templates = match client.resource_templates().all().await {
                Ok(templates) => templates,
                Err(Error::Server(_)) => Vec::new(),
                Err(error) => return Err(error),
            };
            for template in &mut found.templates {
                strip_protocol_members(&mut template.description.meta);
            }
        }
        Ok(found)
    }

    /// Lists the tools, if the upstream declares any.
    pub(crate) async fn fetch_tools(client: &Client) -> Result<Vec<ToolDefinition>, Error> {
        client.clear_cache();
        if client.server().await?.capabilities.tools.is_none() {
            return Ok(Vec::new());
        }
        let mut tools = client.tools().all().await?;
        tools.iter_mut().for_each(|tool| strip_protocol_members(&mut tool.meta));
        Ok(tools)
    }

    /// Keeps the tools that are exposed, with schemas that clients accept.
    pub(crate) fn exposed(mut self, settings: &UpstreamSettings, prefix: &str) -> Self {
        let prefixes = [prefix, &settings.name];
        self.tools.retain(|tool| {
            settings.expose.contains(prefixes, &[&tool.name, settings.served_name(&tool.name)])
        });
        self.tools.iter_mut().for_each(|tool| mend_schemas(&settings.name, tool));
        self
    }
}

/// Replaces an input schema that violates the specification by one for any object, and drops such an
/// output schema: clients reject the whole list for one of them.
fn mend_schemas(server: &str, tool: &mut ToolDefinition) {
    let is_object = tool.input_schema.get("type").is_some_and(|kind| kind == "object");
    if !is_object || !mend_members(&mut tool.input_schema) {
        warn_of_schema(server, &tool.name, "input schema", "any object is accepted");
        tool.input_schema = Map::from_iter([("type".to_owned(), "object".into())]);
    }
    if tool.output_schema.as_mut().is_some_and(|schema| !mend_members(schema)) {
        warn_of_schema(server, &tool.name, "output schema", "it is not served");
        tool.output_schema = None;
    }
}

fn warn_of_schema(server: &str, tool: &str, what: &str, instead: &str) {
    let tool = sanitize::shorten(tool, 128);
    tracing::warn!(server, "the {what} of the tool {tool:?} is invalid; {instead}");
}

/// Checks the members that clients check, and writes schemas that are `true` or `false` as objects.
/// Returns whether they are valid.
fn mend_members(schema: &mut Map<String, Value>) -> bool {
    let are_strings =
        |names: &Value| names.as_array().is_some_and(|names| names.iter().all(Value::is_string));
    if !schema.get("required").is_none_or(are_strings) {
        return false;
    }
    let Some(properties) = schema.get_mut("properties") else { return true };
    let Value::Object(properties) = properties else { return false };
    properties.values_mut().all(|property| {
        match property {
            Value::Bool(true) => *property = json!({}),
            Value::Bool(false) => *property = json!({"not": {}}),
            _ => {}
        }
        property.is_object()
    })
}

/// Removes the members of `_meta` that belong to one hop.
pub(crate) fn strip_protocol_members(meta: &mut Meta) {
    meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
}
