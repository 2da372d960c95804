//! Resources: what clients can list, read and subscribe to.
//!
//! `builder` describes one, `template` a family of them, `provider` those found on request.
//! `catalog` holds all of a server and serves requests for them, subject to `access`. `subscribers`
//! records which connections to notify of a change.

mod access;
mod app;
mod builder;
pub(crate) mod catalog;
mod collection;
mod completion;
mod contents;
mod functions;
pub(crate) mod provider;
mod server;
pub(crate) mod subscribers;
mod template;
mod variables;

use std::fmt;
use std::pin::Pin;

use mcp_flow_proto::model::{CacheHint, ResourceContents, ResourceDefinition, TemplateDefinition};

use crate::completion::Completer;
use crate::context::Context;
use crate::registry::Entry;
use template::UriTemplate;

pub use access::{Access, ResourceAccess};
pub use app::{App, AppBuilder};
pub use builder::{BadResource, ResourceBuilder, TemplateBuilder};
pub use collection::{IntoResources, Offered, ResourceCollection};
pub use contents::{Contents, IntoContents, IntoReadError, ReadError};
pub use provider::{ResourcePage, ResourceProvider, WatchGuard};
pub use server::AddResourcesError;

/// A resource: its definition, and the function that reads it.
pub struct Resource {
    definition: ResourceDefinition,
    source: Source,
    cache: Option<CacheHint>,
}

/// The source of a resource's contents.
enum Source {
    /// Constant contents.
    Fixed(ResourceContents),
    /// A function that reads them.
    Computed(Box<ReadResource>),
}

/// Starts reading a resource.
type ReadResource = dyn Fn(Context) -> Reading + Send + Sync;

/// A future of a resource's contents.
pub(crate) type Reading = Pin<Box<dyn Future<Output = Result<Contents, ReadError>> + Send>>;

impl Resource {
    /// Starts building a resource with this URI.
    ///
    /// ```
    /// use mcp_flow_server::{Context, Resource, Server};
    ///
    /// let motto = Resource::builder("about:motto").text("The path of a call is the path of the code.");
    /// let clock = Resource::builder("clock:/uptime")
    ///     .description("Seconds since the server was started")
    ///     .read(async |_: Context| "42".to_owned());
    ///
    /// let server = Server::builder("demo", "1.0.0").resources((motto, clock)).build().unwrap();
    /// ```
    pub fn builder(uri: impl Into<String>) -> ResourceBuilder {
        ResourceBuilder::new(uri.into())
    }

    /// The definition that is listed.
    pub fn definition(&self) -> &ResourceDefinition {
        &self.definition
    }

    /// Its contents, if they are constant.
    pub(crate) fn fixed(&self) -> Option<&ResourceContents> {
        match &self.source {
            Source::Fixed(contents) => Some(contents),
            Source::Computed(_) => None,
        }
    }

    /// Reads it.
    pub(crate) fn read(&self, context: &Context) -> Reading {
        match &self.source {
            Source::Fixed(contents) => {
                let contents = Contents::Entries(vec![contents.clone()]);
                Box::pin(std::future::ready(Ok(contents)))
            }
            Source::Computed(read) => read(context.clone()),
        }
    }
}

impl Entry for Resource {
    const KIND: &'static str = "resources";

    fn name(&self) -> &str {
        &self.definition.uri
    }

    /// `file://a` names a host; it is also found as `file:///a`, which was meant (C-39).
    fn alias(&self) -> Option<String> {
        let path = self.definition.uri.strip_prefix("file://")?;
        (!path.starts_with('/')).then(|| format!("file:///{path}"))
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Resource")
            .field("uri", &self.definition.uri)
            .finish_non_exhaustive()
    }
}

/// A family of resources whose URIs have a common form.
pub struct ResourceTemplate {
    definition: TemplateDefinition,
    template: UriTemplate,
    /// Completions, by the name of the variable.
    completers: Vec<(String, Completer)>,
    read: Box<ReadTemplate>,
    cache: Option<CacheHint>,
}

/// Starts reading a resource of a template, by the values of its variables.
type ReadTemplate =
    dyn Fn(Context, String, Vec<(&str, String)>) -> Result<Reading, ReadError> + Send + Sync;

impl ResourceTemplate {
    /// Starts building a template: a URI with `{name}` for a variable, or `{+name}` for one that
    /// may contain slashes (RFC 6570).
    ///
    /// The variables reach the function decoded, in a type of its choice. They are untrusted: a
    /// function that builds paths of them has to check them.
    ///
    /// ```
    /// use mcp_flow_server::{Context, ResourceTemplate, Server};
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Square { number: u64 }
    ///
    /// let squares = ResourceTemplate::builder("squares:/{number}")
    ///     .description("The square of a number")
    ///     .read(async |_: Context, Square { number }: Square| (number * number).to_string());
    ///
    /// let server = Server::builder("demo", "1.0.0").resources(squares).build().unwrap();
    /// ```
    pub fn builder(uri_template: impl Into<String>) -> TemplateBuilder {
        TemplateBuilder::new(uri_template.into())
    }

    /// The definition that is listed.
    pub fn definition(&self) -> &TemplateDefinition {
        &self.definition
    }

    /// Reads the resource with this URI, if it matches the template.
    pub(crate) fn read(&self, context: &Context, uri: &str) -> Option<Result<Reading, ReadError>> {
        let values = self.template.values(uri)?;
        Some((self.read)(context.clone(), uri.to_owned(), values))
    }

    pub(crate) fn matches(&self, uri: &str) -> bool {
        self.template.values(uri).is_some()
    }
}

impl Entry for ResourceTemplate {
    const KIND: &'static str = "templates";

    fn name(&self) -> &str {
        &self.definition.uri_template
    }

    fn alias(&self) -> Option<String> {
        None
    }
}

impl fmt::Debug for ResourceTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = &self.definition.uri_template;
        formatter.debug_struct("ResourceTemplate").field("uri", uri).finish_non_exhaustive()
    }
}
