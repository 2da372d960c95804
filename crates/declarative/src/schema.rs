//! Published JSON Schema of tool files.

use mcp_flow_server::{BadResource, Resource};

/// JSON Schema 2020-12 of tool files, as published.
pub const SCHEMA: &str = include_str!("../tools.schema.json");

/// Returns the schema as a resource, for editors and models.
pub fn schema_resource() -> Result<Resource, BadResource> {
    Resource::builder("mcp-flow:/tools.schema.json")
        .name("tools.schema.json")
        .description("The JSON Schema of tool files")
        .mime_type("application/schema+json")
        .text(SCHEMA)
}
