//! One resource or many, wherever resources are asked for.

use std::sync::Arc;

use super::{BadResource, Resource, ResourceTemplate};

/// A resource, or a template of resources.
#[derive(Debug)]
pub enum Offered {
    /// One resource.
    Resource(Resource),
    /// Many that are alike.
    Template(ResourceTemplate),
}

/// What resources can be added from: one resource or template, several, or something that has some.
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
    /// The resources, in the order they are to be listed.
    fn into_resources(self) -> Result<Vec<Offered>, BadResource>;
}

/// A type with methods that read resources.
pub trait ResourceCollection: Send + Sync + 'static {
    /// The resources, all sharing the value they are methods of.
    fn resources(self: Arc<Self>) -> Result<Vec<Offered>, BadResource>;
}

impl<T: ResourceCollection> IntoResources for Arc<T> {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        self.resources()
    }
}

impl IntoResources for Offered {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        Ok(vec![self])
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

impl<T: IntoResources> IntoResources for Result<T, BadResource> {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        self?.into_resources()
    }
}

impl<T: IntoResources> IntoResources for Vec<T> {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        let mut all = Vec::with_capacity(self.len());
        for resources in self {
            all.extend(resources.into_resources()?);
        }
        Ok(all)
    }
}

impl<T: IntoResources, const N: usize> IntoResources for [T; N] {
    fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
        Vec::from(self).into_resources()
    }
}

macro_rules! tuples {
    ($($first:ident $($rest:ident)*)?) => {
        // Nine of these would bury the sentence that says what to do.
        #[diagnostic::do_not_recommend]
        impl<$($first: IntoResources, $($rest: IntoResources,)*)?> IntoResources
            for ($($first, $($rest,)*)?)
        {
            #[allow(non_snake_case, reason = "a type parameter names its value, too")]
            fn into_resources(self) -> Result<Vec<Offered>, BadResource> {
                let ($($first, $($rest,)*)?) = self;
                #[allow(unused_mut, reason = "an empty tuple adds nothing")]
                let mut all = Vec::new();
                $(all.extend($first.into_resources()?); $(all.extend($rest.into_resources()?);)*)?
                Ok(all)
            }
        }
        $(tuples!($($rest)*);)?
    };
}

// Tuples may hold tuples, so there is no end to how many resources can be listed.
tuples!(A B C D E F G H);
