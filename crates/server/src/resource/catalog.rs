//! All the resources of a server, and what becomes of a request for one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::ACCESS_DENIED;
use mcp_flow_proto::model::ResourceContents;

use super::contents::ReadError;
use super::{Access, Offered, Reading, Resource, ResourceAccess, ResourceTemplate};
use crate::context::Context;
use crate::registry::{RegisterError, Registry};

/// What a server offers to be read.
#[derive(Default)]
pub(crate) struct Catalog {
    resources: RwLock<Registry<Resource>>,
    templates: RwLock<Registry<ResourceTemplate>>,
    access: Option<Box<dyn ResourceAccess>>,
    /// Set with the first resource; what a server has once offered it does not take back.
    is_offered: AtomicBool,
    /// Set with the first template that suggests values.
    has_completions: AtomicBool,
}

impl Catalog {
    /// Decides from now on who may do what. To be called before anything is served.
    pub(crate) fn set_access(&mut self, access: Box<dyn ResourceAccess>) {
        self.access = Some(access);
    }

    /// Adds resources and templates: all of them, or none.
    pub(crate) fn add(&self, offered: Vec<Offered>) -> Result<(), RegisterError> {
        let (mut resources, mut templates) = (Vec::new(), Vec::new());
        for offered in offered {
            match offered {
                Offered::Resource(resource) => resources.push(resource),
                Offered::Template(template) => templates.push(template),
            }
        }
        let names: Vec<_> =
            resources.iter().map(|resource| resource.definition().uri.clone()).collect();
        let completes = templates.iter().any(ResourceTemplate::has_completions);
        if !(resources.is_empty() && templates.is_empty()) {
            let added = self.resources_mut().add(resources);
            added.map_err(|(error, _unused)| error)?;
            let added = self.templates_mut().add(templates);
            if let Err((error, _unused)) = added {
                // Dropped after the lock is released: what one holds may reach for the server.
                let _unused: Vec<_> =
                    names.iter().map(|name| self.resources_mut().remove(name)).collect();
                return Err(error);
            }
            self.is_offered.store(true, Ordering::Release);
            self.has_completions.fetch_or(completes, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Takes out a resource by its URI, or a template by its text.
    pub(crate) fn remove(&self, uri: &str) -> bool {
        let resource = self.resources_mut().remove(uri);
        let template = self.templates_mut().remove(uri);
        resource.is_some() || template.is_some()
    }

    /// Whether there are or were resources.
    pub(crate) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Whether values are suggested for a variable of any template.
    pub(crate) fn has_completions(&self) -> bool {
        self.has_completions.load(Ordering::Acquire)
    }

    /// The template of this text, if the caller may see it.
    pub(crate) fn find_template(
        &self,
        caller: &Context,
        uri: &str,
    ) -> Result<Arc<ResourceTemplate>, RpcError> {
        // Taken out of the list first: the rules are the application's, and may change the list.
        let found = self.templates().find(uri).cloned();
        let found = found.filter(|_| self.access(caller, uri) >= Access::See);
        found.ok_or_else(|| RpcError::invalid_params("ref.uri is no template of resources"))
    }

    /// What a caller may do with a resource.
    pub(crate) fn access(&self, caller: &Context, uri: &str) -> Access {
        self.access.as_ref().map_or(Access::Read, |access| access.access(caller, uri))
    }

    /// Whether what one caller may do may differ from what another may.
    pub(crate) fn has_access_rules(&self) -> bool {
        self.access.is_some()
    }

    /// Begins to read a resource, or says why that cannot be.
    pub(crate) fn read(&self, caller: &Context, uri: &str) -> Result<Reading, RpcError> {
        let found = match self.check(caller, uri)? {
            Found::Resource(resource) => resource.read(caller),
            Found::Template(template) => match template.read(caller, uri) {
                Some(Ok(reading)) => reading,
                Some(Err(error)) => return Err(refuse(uri, error)),
                None => return Err(RpcError::resource_not_found(uri)),
            },
        };
        Ok(found)
    }

    /// Finds a resource that the caller may read.
    fn check(&self, caller: &Context, uri: &str) -> Result<Found, RpcError> {
        let not_found = || RpcError::resource_not_found(uri);
        if uri.len() > LONGEST_URI {
            return Err(not_found());
        }
        let access = self.access(caller, uri);
        if access == Access::None {
            return Err(not_found());
        }
        let found = self.find(uri).ok_or_else(not_found)?;
        if access == Access::See {
            return Err(denied(uri, "You may see this resource, but not read it."));
        }
        Ok(found)
    }

    fn find(&self, uri: &str) -> Option<Found> {
        if let Some(resource) = self.resources().find(uri) {
            return Some(Found::Resource(resource.clone()));
        }
        let templates = self.templates();
        let template = templates.iter().find(|template| template.matches(uri));
        template.cloned().map(Found::Template)
    }

    /// What a resource holds, if that is known without waiting and the caller may read it.
    pub(crate) fn peek(&self, caller: &Context, uri: &str) -> Option<ResourceContents> {
        let resource = self.resources().find(uri).cloned()?;
        let contents = resource.fixed()?;
        (self.access(caller, uri) == Access::Read).then(|| contents.clone())
    }

    pub(crate) fn resources(&self) -> RwLockReadGuard<'_, Registry<Resource>> {
        self.resources.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn templates(&self) -> RwLockReadGuard<'_, Registry<ResourceTemplate>> {
        self.templates.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn resources_mut(&self) -> RwLockWriteGuard<'_, Registry<Resource>> {
        self.resources.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn templates_mut(&self) -> RwLockWriteGuard<'_, Registry<ResourceTemplate>> {
        self.templates.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a URI names.
enum Found {
    Resource(Arc<Resource>),
    Template(Arc<ResourceTemplate>),
}

/// The error a failed reading is told by.
pub(crate) fn refuse(uri: &str, error: ReadError) -> RpcError {
    match error {
        ReadError::NotFound => RpcError::resource_not_found(uri),
        ReadError::Denied(details) => denied(uri, &details),
        ReadError::Failed(details) => {
            tracing::warn!(uri, details, "a resource could not be read");
            RpcError::internal().details(details).with("uri", uri)
        }
    }
}

fn denied(uri: &str, details: &str) -> RpcError {
    RpcError::new(ACCESS_DENIED).details(details).with("uri", uri)
}

/// No resource has a longer URI.
pub(crate) const LONGEST_URI: usize = 8 * 1024;
