//! Resources of every kind, and one for subscriptions.

use mcp_flow::prelude::*;
use mcp_flow::{BadResource, IntoResources, Resource, ResourceTemplate};
use serde_json::{Value, json};

/// All resources.
pub fn resources() -> impl IntoResources {
    (text(), binary(), watched(), template())
}

fn text() -> Result<Resource, BadResource> {
    Resource::builder("test://static-text")
        .description("A text that never changes")
        .mime_type("text/plain")
        .text("This is the content of the static text resource.")
}

fn binary() -> Result<Resource, BadResource> {
    Resource::builder("test://static-binary")
        .description("An image that never changes")
        .mime_type("image/png")
        .bytes(*super::content::PIXEL)
}

fn watched() -> Result<Resource, BadResource> {
    Resource::builder("test://watched-resource")
        .description("A text that can be watched")
        .mime_type("text/plain")
        .text("Nothing has happened yet.")
}

fn template() -> Result<ResourceTemplate, BadResource> {
    #[data]
    struct Variables {
        id: String,
    }
    ResourceTemplate::builder("test://template/{id}/data")
        .name("template")
        .description("Data made up from an id")
        .mime_type("application/json")
        .read(async |_: Context, Variables { id }: Variables| -> Value {
            json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")})
        })
}
