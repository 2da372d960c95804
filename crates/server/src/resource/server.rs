//! Registration of resources with a server.

use std::sync::Arc;

use mcp_flow_proto::model::Topics;

use super::{BadResource, IntoResources, ResourceAccess, ResourceProvider};
use crate::connections::Change;
use crate::permissions::PermissionKind;
use crate::registry::RegisterError;
use crate::server::{Server, ServerBuilder};
use crate::shared_notice::SharedNotice;
use crate::tool::is_app_uri;

impl Server {
    /// Adds resources and templates while the server runs, all of them or none. Subscribed clients
    /// are notified.
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
            if uris.iter().any(|uri| is_app_uri(uri)) {
                self.declare_apps();
            }
            self.resource_list_changed(uris.iter().map(String::as_str).collect());
        }
        Ok(())
    }

    /// Removes a resource by its URI, or a template by its text, while the server runs. Returns
    /// whether it existed.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let removed = self.catalog().remove(uri);
        if removed {
            self.resource_list_changed(vec![uri]);
        }
        removed
    }

    /// Announces that the contents of a resource have changed. Clients subscribed to it are
    /// notified, once for all changes within a short interval. A [`ResourceProvider`] announces its
    /// own changes.
    pub fn resource_changed(&self, uri: &str) {
        self.catalog().subscribers().notify(uri);
        self.share(|| Some(SharedNotice::ResourceUpdated { uri: uri.to_owned() }));
    }

    /// Announces that a [`ResourceProvider`] has other resources than it listed before.
    pub fn resources_changed(&self) {
        self.resource_list_changed(Vec::new());
    }

    /// Notifies clients that may see one of these; no URIs mean any.
    fn resource_list_changed(&self, uris: Vec<&str>) {
        self.announce(&Change { topics: RESOURCES, names: Some((PermissionKind::Resource, uris)) });
    }
}

impl ServerBuilder {
    /// Adds resources and templates: one, or several in a tuple or list. [`build`](Self::build)
    /// reports errors.
    pub fn resources(mut self, resources: impl IntoResources) -> Self {
        match resources.into_resources() {
            Ok(resources) => self.resources.extend(resources),
            Err(error) => {
                self.bad_resource.get_or_insert(error);
            }
        }
        self
    }

    /// Adds resources found on request. Registered resources precede them in lists and lookups.
    pub fn resource_provider(mut self, provider: impl ResourceProvider) -> Self {
        self.catalog.add_provider(Arc::new(provider));
        self
    }

    /// Sets which callers may see and read which resources. By default everyone may read all of
    /// them.
    pub fn resource_access(mut self, access: impl ResourceAccess) -> Self {
        self.catalog.set_access(Box::new(access));
        self
    }
}

/// Error while adding resources.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddResourcesError {
    /// A resource is invalid.
    #[error(transparent)]
    Bad(#[from] BadResource),
    /// Two resources have the same name.
    #[error(transparent)]
    Collision(#[from] RegisterError),
}

const RESOURCES: Topics =
    Topics { tools_list_changed: false, prompts_list_changed: false, resources_list_changed: true };
