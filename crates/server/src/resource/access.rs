//! Access rules of an application for its resources.

use crate::context::Context;

/// A caller's access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// None: the resource is hidden from this caller.
    None,
    /// Listing. Reading is `ACCESS_DENIED`.
    See,
    /// Listing, reading and subscribing.
    Read,
}

/// Decides on access before resources are listed, read or subscribed to.
///
/// Listed templates are passed by their text, such as `users:/{id}`. It is called on the path of
/// every request and should return quickly.
///
/// ```
/// use mcp_flow_server::resource::Access;
/// use mcp_flow_server::{Context, Resource, Server};
///
/// let server = Server::builder("diary", "1.0.0")
///     .resources(Resource::builder("diary:/ada").text("Dear diary"))
///     .resource_access(|caller: &Context, uri: &str| {
///         let owner = uri.trim_start_matches("diary:/");
///         if caller.principal().name() == owner { Access::Read } else { Access::None }
///     })
///     .build()
///     .unwrap();
/// ```
pub trait ResourceAccess: Send + Sync + 'static {
    /// The caller's access to the resource with this URI, whether or not it exists.
    fn access(&self, caller: &Context, uri: &str) -> Access;
}

impl<F: Fn(&Context, &str) -> Access + Send + Sync + 'static> ResourceAccess for F {
    fn access(&self, caller: &Context, uri: &str) -> Access {
        self(caller, uri)
    }
}

impl Context {
    /// Returns what the caller may do with a resource, by the rules of the server and of the
    /// application, whether or not there is one.
    pub fn resource_access(&self, uri: &str) -> Access {
        self.server().catalog().access(self, uri)
    }
}
