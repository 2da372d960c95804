//! Who may see and read which resources.

use crate::context::Context;

/// What a caller may do with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing: to this caller it does not exist.
    None,
    /// See it in the list. Reading it is `ACCESS_DENIED`.
    See,
    /// See and read it, and be told of its changes.
    Read,
}

/// Decides what callers may do with resources, before they are listed, read or subscribed to.
///
/// Templates are asked about by their text, such as `users:/{id}`, when they are listed. It is
/// asked on the path of every request and should answer quickly.
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
    /// What this caller may do with the resource of this URI, whether or not there is one.
    fn access(&self, caller: &Context, uri: &str) -> Access;
}

impl<F: Fn(&Context, &str) -> Access + Send + Sync + 'static> ResourceAccess for F {
    fn access(&self, caller: &Context, uri: &str) -> Access {
        self(caller, uri)
    }
}
