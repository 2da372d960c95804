//! Definitions that an upstream lists.

use mcp_flow_client::{Client, Error};
use mcp_flow_proto::model::{
    Meta, PromptDefinition, ResourceDefinition, TemplateDefinition, ToolDefinition,
};

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

    /// Keeps the tools that are exposed.
    pub(crate) fn exposed(mut self, settings: &UpstreamSettings, prefix: &str) -> Self {
        self.tools.retain(|tool| {
            settings.expose.contains(prefix, &[&tool.name, settings.served_name(&tool.name)])
        });
        self
    }
}

/// Removes the members of `_meta` that belong to one hop.
pub(crate) fn strip_protocol_members(meta: &mut Meta) {
    meta.retain(|name, _| !name.starts_with("io.modelcontextprotocol/"));
}
