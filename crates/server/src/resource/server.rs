//! What a server can do with resources.

use std::sync::Arc;

use mcp_flow_proto::model::Topics;

use super::{BadResource, IntoResources, ResourceAccess, ResourceProvider};
use crate::connections::Change;
use crate::permissions::Kind;
use crate::registry::RegisterError;
use crate::server::{Server, ServerBuilder};

impl Server {
    /// Adds resources and templates while the server runs, all of them or none. Clients that want
    /// to know are told.
    ///
    /// ```
    /// use mcp_flow_server::{Resource, Server};
    ///
    /// let server = Server::builder("growing", "1.0.0").build().unwrap();
    /// server.add_resources(Resource::builder("news:/today").text("nothing")).unwrap();
    /// assert!(server.remove_resource("news:/today"));
    /// ```
    pub fn add_resources(&self, resources: impl IntoResources) -> Result<(), AddResourcesError> {
        let resources = resources.into_resources()?;
        if !resources.is_empty() {
            let uris: Vec<_> = resources.iter().map(|offered| offered.uri().to_owned()).collect();
            self.catalog().add(resources)?;
            self.resource_list_changed(uris.iter().map(String::as_str).collect());
        }
        Ok(())
    }

    /// Removes a resource by its URI, or a template by its text, while the server runs. Returns
    /// whether there was one.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.catalog().remove(uri);
        if removed {
            self.resource_list_changed(vec![uri]);
        }
        removed
    }

    /// Says that a resource holds something else than before. Clients that have subscribed to it
    /// are told, once for all that changes within a moment. A [`ResourceProvider`] says so by
    /// itself.
    pub fn resource_changed(&self, uri: &str) {
        self.catalog().subscribers().tell(uri);
    }

    /// Announces that a [`ResourceProvider`] has other resources than it listed before.
    pub fn resources_changed(&self) {
        self.resource_list_changed(Vec::new());
    }

    /// Tells those of a change who may see one of these; no names mean any.
    fn resource_list_changed(&self, uris: Vec<&str>) {
        self.announce(&Change { topics: RESOURCES, names: Some((Kind::Resource, uris)) });
    }
}

impl ServerBuilder {
    /// Adds resources and templates: one, or several in a tuple or list. What is wrong with one is
    /// told by [`build`](Self::build).
    pub fn resources(mut self, resources: impl IntoResources) -> Self {
        match resources.into_resources() {
            Ok(resources) => self.resources.extend(resources),
            Err(error) => {
                self.bad_resource.get_or_insert(error);
            }
        }
        self
    }

    /// Adds resources that are found on request. They are listed after those that are registered,
    /// which come first for reading, too.
    pub fn resource_provider(mut self, provider: impl ResourceProvider) -> Self {
        self.catalog.add_provider(Arc::new(provider));
        self
    }

    /// Sets who may see and read which resources. Without, everyone may read all of them.
    pub fn resource_access(mut self, access: impl ResourceAccess) -> Self {
        self.catalog.set_access(Box::new(access));
        self
    }
}

/// Why resources cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddResourcesError {
    /// One of them cannot be used.
    #[error(transparent)]
    Bad(#[from] BadResource),
    /// Two of them collide.
    #[error(transparent)]
    Collision(#[from] RegisterError),
}

const RESOURCES: Topics =
    Topics { tools_list_changed: false, prompts_list_changed: false, resources_list_changed: true };
