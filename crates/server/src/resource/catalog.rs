//! All the resources of a server, and what becomes of a request for one.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use mcp_flow_proto::RpcError;
use mcp_flow_proto::error::{ACCESS_DENIED, RATE_LIMITED};
use mcp_flow_proto::model::ResourceContents;

use super::contents::{Contents, ReadError};
use super::roots::Roots;
use super::subscribers::{Subscribers, Subscription};
use super::watch::{Change, Watch};
use super::{Access, Offered, Reading, Resource, ResourceAccess, ResourceTemplate};
use crate::context::Context;
use crate::permissions::Kind;
use crate::registry::{RegisterError, Registry};
use crate::server::Server;

/// What a server offers to be read.
#[derive(Default)]
pub(crate) struct Catalog {
    resources: RwLock<Registry<Resource>>,
    templates: RwLock<Registry<ResourceTemplate>>,
    roots: Roots,
    access: Option<Box<dyn ResourceAccess>>,
    subscribers: Subscribers,
    /// Started when a file is first subscribed to or listed.
    watch: OnceLock<Result<Watch, String>>,
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

    /// Serves the files of these directories, too. To be called before anything is served.
    pub(crate) fn add_roots(&mut self, roots: Roots) {
        self.roots = std::mem::take(&mut self.roots).and(roots);
        *self.is_offered.get_mut() |= !self.roots.is_empty();
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

    /// What a caller may do with a resource: what the application allows, if the rules of the
    /// server do not forbid it.
    pub(crate) fn access(&self, caller: &Context, uri: &str) -> Access {
        if !caller.may(Kind::Resource, uri) {
            return Access::None;
        }
        self.access.as_ref().map_or(Access::Read, |access| access.access(caller, uri))
    }

    /// Whether the application has a say in who may do what.
    pub(crate) fn has_access_rules(&self) -> bool {
        self.access.is_some()
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Begins to read a resource, or says why that cannot be.
    pub(crate) fn read(&self, caller: &Context, uri: &str) -> Result<Reading, RpcError> {
        match self.check(caller, uri)? {
            Found::Resource(resource) => Ok(resource.read(caller)),
            Found::Template(template) => match template.read(caller, uri) {
                Some(reading) => reading.map_err(|error| refuse(uri, error)),
                None => Err(RpcError::resource_not_found(uri)),
            },
            Found::File => {
                let (roots, uri) = (self.roots.clone(), uri.to_owned());
                Ok(Box::pin(async move {
                    let opened = tokio::task::spawn_blocking(move || roots.open_uri(&uri));
                    let opened = opened.await.map_err(ReadError::from)?;
                    opened.map(Contents::Bulk).map_err(file_error)
                }))
            }
        }
    }

    /// Subscribes a caller to a resource that it may read. Blocks for as long as the file system
    /// does, if it is a file.
    pub(crate) fn subscribe(&self, caller: &Context, uri: &str) -> Result<Subscription, RpcError> {
        let server = caller.server();
        let refused = |details: String| {
            tracing::warn!(uri, details, "a subscription was refused");
            RpcError::new(RATE_LIMITED).details(details).with("uri", uri)
        };
        let found = self.check(caller, uri)?;
        let subscription = Subscription::new(server.clone(), uri.into(), caller.connection())
            .ok_or_else(|| refused("The server has too many subscriptions.".to_owned()))?;
        let Found::File = found else { return Ok(subscription) };
        let files = self.roots.find_uri(uri);
        let files = files.map_err(|error| refuse(uri, file_error(error)))?;
        self.watch_files(server, &files, subscription.uri())
            .map_err(|details| refused(format!("This file cannot be watched: {details}.")))?;
        Ok(subscription.watched_at(files))
    }

    /// Whether subscribing to this may block.
    pub(crate) fn may_be_file(&self, uri: &str) -> bool {
        self.roots.may_have(uri)
    }

    fn watch_files(
        &self,
        server: &Server,
        files: &[PathBuf],
        uri: &Arc<str>,
    ) -> Result<(), String> {
        let watch = self.watch(server).map_err(str::to_owned)?;
        for (index, file) in files.iter().enumerate() {
            if let Err(error) = watch.watch(file, uri) {
                files[..index].iter().for_each(|file| watch.release(file, uri));
                return Err(error);
            }
        }
        Ok(())
    }

    /// What watches files, started if need be.
    pub(crate) fn watch(&self, server: &Server) -> Result<&Watch, &str> {
        let start = || {
            let server = server.downgrade();
            Watch::start(move |change| {
                let Some(server) = server.upgrade() else { return };
                match change {
                    Change::Resource(uri) => server.resource_changed(uri),
                    Change::List => server.resource_list_changed(Vec::new()),
                }
            })
        };
        self.watch.get_or_init(start).as_ref().map_err(String::as_str)
    }

    pub(super) fn running_watch(&self) -> Option<&Watch> {
        self.watch.get()?.as_ref().ok()
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
        // A file answers to several spellings; the rules are about the one it is listed under.
        if matches!(found, Found::File)
            && self.roots.spellings(uri).any(|uri| !caller.may(Kind::Resource, &uri))
        {
            return Err(not_found());
        }
        if access == Access::See {
            // Only what is listed may be known to be there.
            let is_there = !matches!(found, Found::File) || self.roots.open_uri(uri).is_ok();
            let denied = denied(uri, "You may see this resource, but not read it.");
            return Err(if is_there { denied } else { not_found() });
        }
        Ok(found)
    }

    fn find(&self, uri: &str) -> Option<Found> {
        if let Some(resource) = self.resources().find(uri) {
            return Some(Found::Resource(resource.clone()));
        }
        let templates = self.templates();
        let template = templates.iter().find(|template| template.matches(uri));
        let template = template.cloned().map(Found::Template);
        template.or_else(|| self.roots.may_have(uri).then_some(Found::File))
    }

    /// What a resource holds, if that is little and known without waiting, and the caller may read
    /// it.
    pub(crate) fn peek(
        &self,
        caller: &Context,
        uri: &str,
        most: usize,
    ) -> Option<ResourceContents> {
        if self.access(caller, uri) != Access::Read {
            return None;
        }
        let resource = self.resources().find(uri).cloned()?;
        let contents = resource.fixed()?;
        (contents.body.len() <= most).then(|| contents.clone())
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
    /// Something beneath a root, if it is there.
    File,
}

fn file_error(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ReadError::Denied("The server may not read this file.".to_owned())
        }
        _ => error.into(),
    }
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
