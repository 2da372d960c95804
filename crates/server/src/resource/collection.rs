//! Conversion into lists of resources.

use std::sync::Arc;

use super::{BadResource, Resource, ResourceTemplate};
use crate::collection::collection;

/// A resource or a template.
#[derive(Debug)]
pub enum Offered {
    /// One resource.
    Resource(Resource),
    /// A family of resources.
    Template(ResourceTemplate),
}

impl Offered {
    /// Its URI, or the text of the template.
    pub(crate) fn uri(&self) -> &str {
        match self {
            Self::Resource(resource) => &resource.definition().uri,
            Self::Template(template) => &template.definition().uri_template,
        }
    }
}

/// A source of resources: one resource or template, several, or a type with resources.
///
/// ```
/// use mcp_flow_server::{Resource, Server};
///
/// let resources: Vec<_> = ["one", "two"]
///     .map(|name| Resource::builder(format!("numbers:/{name}")).text(name))
///     .into();
/// let server = Server::builder("numbers", "1.0.0").resources(resources).build().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resource",
    label = "no resource, and no collection of resources",
    note = "begin with `Resource::builder(uri)` or `ResourceTemplate::builder(uri_template)`"
)]
pub trait IntoResources {
    /// The resources, in listing order.
    fn into_resources(self) -> Result<Vec<Offered>, BadResource>;
}

/// A type with methods that read resources.
pub trait ResourceCollection: Send + Sync + 'static {
    /// The resources, all sharing this value.
    fn resources(self: Arc<Self>) -> Result<Vec<Offered>, BadResource>;
}

impl<T: ResourceCollection> IntoResources for Arc<T> {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        self.resources()
    }
}

impl IntoResources for Resource {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        Ok(vec![Offered::Resource(self)])
    }
}

impl IntoResources for ResourceTemplate {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        Ok(vec![Offered::Template(self)])
    }
}

collection!(IntoResources::into_resources -> Offered, BadResource);
