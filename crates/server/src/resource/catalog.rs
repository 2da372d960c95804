//! The resources of a server: lookup, access, reading, subscribing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_flow_proto::error::{ACCESS_DENIED, TOO_MANY_SUBSCRIPTIONS};
use mcp_flow_proto::model::{CacheHint, ResourceContents, ResourceDefinition, TemplateDefinition};
use mcp_flow_proto::{Raw, RpcError};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::contents::{Contents, ReadError};
use super::provider::Position;
use super::subscribers::{Subscribers, Subscription};
use super::{
    Access, Offered, Reading, Resource, ResourceAccess, ResourceProvider, ResourceTemplate,
};
use crate::context::Context;
use crate::handler::Reply;
use crate::permissions::PermissionKind;
use crate::registry::{RegisterError, Registry};
use crate::server::Server;

/// The resources a server offers.
#[derive(Default)]
pub(crate) struct Catalog {
    resources: RwLock<Registry<Resource>>,
    templates: RwLock<Registry<ResourceTemplate>>,
    providers: Vec<Arc<dyn ResourceProvider>>,
    access: Option<Box<dyn ResourceAccess>>,
    subscribers: Subscribers,
    /// Set with the first resource and never cleared: a declared capability is not withdrawn.
    is_offered: AtomicBool,
    /// Set with the first template that has completions.
    has_completions: AtomicBool,
}

impl Catalog {
    /// Sets the access rules. Called before anything is served.
    pub(crate) fn set_access(&mut self, access: Box<dyn ResourceAccess>) {
        self.access = Some(access);
    }

    /// Adds a provider. Called before anything is served.
    pub(crate) fn add_provider(&mut self, provider: Arc<dyn ResourceProvider>) {
        self.providers.push(provider);
        *self.is_offered.get_mut() = true;
    }

    /// Adds all resources and templates or none.
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
                // Dropped after the lock is released: dropping one may call the server again.
                let _unused: Vec<_> =
                    names.iter().map(|name| self.resources_mut().remove(name)).collect();
                return Err(error);
            }
            self.is_offered.store(true, Ordering::Release);
            self.has_completions.fetch_or(completes, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Removes a resource by its URI, or a template by its text.
    pub(crate) fn remove(&self, uri: &str) -> bool {
        let resource = self.resources_mut().remove(uri);
        let template = self.templates_mut().remove(uri);
        resource.is_some() || template.is_some()
    }

    /// Returns whether there are or were resources.
    pub(crate) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Acquire)
    }

    /// Returns whether any template has completions.
    pub(crate) fn has_completions(&self) -> bool {
        self.has_completions.load(Ordering::Acquire)
    }

    /// The template with this text, if the caller may see it.
    pub(crate) fn find_template(
        &self,
        caller: &Context,
        uri: &str,
    ) -> Result<Arc<ResourceTemplate>, RpcError> {
        // Cloned out of the list first: the application's rules may change the list.
        let found = self.templates().find(uri).cloned();
        let found = found.filter(|_| self.access(caller, uri) >= Access::See);
        found.ok_or_else(|| RpcError::invalid_params("ref.uri is not a resource template"))
    }

    /// The caller's access to a resource: what the application allows, unless the server's rules
    /// forbid it.
    pub(crate) fn access(&self, caller: &Context, uri: &str) -> Access {
        if !caller.may(PermissionKind::Resource, uri) {
            return Access::None;
        }
        self.access.as_ref().map_or(Access::Read, |access| access.access(caller, uri))
    }

    /// Returns whether the application decides on access.
    pub(crate) fn has_access_rules(&self) -> bool {
        self.access.is_some()
    }

    /// Returns whether listing may block, because there are providers.
    pub(crate) fn has_providers(&self) -> bool {
        !self.providers.is_empty()
    }

    /// Lists up to `most` visible resources of providers, and the position of the next page.
    pub(crate) fn list_provided(
        &self,
        server: &Server,
        from: Position,
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> (Vec<ResourceDefinition>, Option<Position>) {
        let (mut definitions, mut position) = (Vec::new(), from);
        while let Some(provider) = self.providers.get(usize::from(position.provider)) {
            let room = most - definitions.len();
            if room == 0 {
                return (definitions, Some(position));
            }
            let page = provider.list(server, &position.within, room, is_visible);
            definitions.extend(page.definitions);
            if let Some(within) = page.next {
                return (definitions, Some(Position { within, ..position }));
            }
            position = Position { provider: position.provider + 1, within: Vec::new() };
        }
        (definitions, None)
    }

    /// Lists the templates of providers from this position, and the position after them.
    pub(crate) fn list_provided_templates(
        &self,
        from: &Position,
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> (Vec<TemplateDefinition>, Option<Position>) {
        let start = from.within.as_slice().try_into().map_or(0, u64::from_be_bytes);
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let all = self.providers.iter().flat_map(|provider| provider.templates());
        let mut rest = all.filter(|template| is_visible(&template.uri_template)).skip(start);
        let definitions: Vec<_> = rest.by_ref().take(most).collect();
        let next = rest.next().map(|_| Position {
            provider: from.provider,
            within: ((start + definitions.len()) as u64).to_be_bytes().to_vec(),
        });
        (definitions, next)
    }

    /// Completes a variable of a template of a provider; `None` if no provider has the template.
    pub(crate) fn complete_provided(
        &self,
        caller: &Context,
        template: &str,
        argument: &str,
        value: &str,
        others: Raw<'_>,
    ) -> Option<Reply> {
        if self.access(caller, template) < Access::See {
            return None;
        }
        let mut providers = self.providers.iter();
        providers.find_map(|provider| provider.complete(caller, template, argument, value, others))
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    /// Starts reading a resource.
    pub(crate) fn read(&self, caller: &Context, uri: &str) -> Result<ReadReply, RpcError> {
        let mut hint = None;
        let reading = match self.check(caller, uri)? {
            Target::Resource(resource) => {
                hint = resource.cache;
                Ok(resource.read(caller))
            }
            Target::Template(template) => match template.read(caller, uri) {
                Some(reading) => {
                    hint = template.cache;
                    reading.map_err(|error| read_failure(uri, error))
                }
                None => Err(RpcError::resource_not_found(uri)),
            },
            Target::Provided(provider) => {
                if let Some(reply) = provider.forward_read(caller, uri) {
                    return Ok(ReadReply::Forwarded(reply));
                }
                let uri = uri.to_owned();
                let reading: Reading = Box::pin(async move {
                    let opened = tokio::task::spawn_blocking(move || provider.open(&uri));
                    opened.await.map_err(ReadError::from)?.map(Contents::Bulk)
                });
                Ok(reading)
            }
        };
        reading.map(|reading| ReadReply::Contents(reading, hint))
    }

    /// Subscribes a caller to a resource that it may read. Blocks while the provider does.
    pub(crate) fn subscribe(&self, caller: &Context, uri: &str) -> Result<Subscription, RpcError> {
        let server = caller.server();
        let refused = |details: String| {
            tracing::warn!(uri, details, "a subscription was rejected");
            RpcError::new(TOO_MANY_SUBSCRIPTIONS).details(details).with("uri", uri)
        };
        let found = self.check(caller, uri)?;
        let subscription = Subscription::new(server.clone(), uri.into(), caller.connection())
            .ok_or_else(|| refused("The server has too many subscriptions.".to_owned()))?;
        let Target::Provided(provider) = found else { return Ok(subscription) };
        match provider.watch(caller, subscription.uri()) {
            Ok(guard) => Ok(subscription.watched_by(guard)),
            Err(ReadError::Failed(details)) => {
                Err(refused(format!("This resource cannot be watched: {details}.")))
            }
            Err(error) => Err(read_failure(uri, error)),
        }
    }

    /// Returns whether subscribing to this may block.
    /// Returns whether there is a resource, a template or a provider for this URI.
    pub(crate) fn is_known(&self, uri: &str) -> bool {
        self.find(uri).is_some()
    }

    pub(crate) fn is_provided(&self, uri: &str) -> bool {
        self.provider(uri).is_some()
    }

    fn provider(&self, uri: &str) -> Option<&Arc<dyn ResourceProvider>> {
        self.providers.iter().find(|provider| provider.claims(uri))
    }

    /// Finds a resource that the caller may read.
    fn check(&self, caller: &Context, uri: &str) -> Result<Target, RpcError> {
        let not_found = || RpcError::resource_not_found(uri);
        if uri.len() > MAX_URI_LENGTH {
            return Err(not_found());
        }
        let access = self.access(caller, uri);
        if access == Access::None {
            return Err(not_found());
        }
        let found = self.find(uri).ok_or_else(not_found)?;
        // A file has several spellings; the rules apply to the one it is listed under.
        if let Target::Provided(provider) = &found
            && provider
                .listed_uris(uri)
                .iter()
                .any(|uri| !caller.may(PermissionKind::Resource, uri))
        {
            return Err(not_found());
        }
        if access == Access::See {
            // A resource that is only visible in the list is not revealed otherwise.
            let is_there = match &found {
                Target::Provided(provider) => provider.open(uri).is_ok(),
                Target::Resource(_) | Target::Template(_) => true,
            };
            let denied = denied(uri, "You may see this resource, but not read it.");
            return Err(if is_there { denied } else { not_found() });
        }
        Ok(found)
    }

    fn find(&self, uri: &str) -> Option<Target> {
        if let Some(resource) = self.resources().find(uri) {
            return Some(Target::Resource(resource.clone()));
        }
        let templates = self.templates();
        let template = templates.iter().find(|template| template.matches(uri));
        let template = template.cloned().map(Target::Template);
        template.or_else(|| self.provider(uri).cloned().map(Target::Provided))
    }

    /// The contents of a resource, if they are small, constant and readable by the caller.
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
        self.resources.read()
    }

    pub(crate) fn templates(&self) -> RwLockReadGuard<'_, Registry<ResourceTemplate>> {
        self.templates.read()
    }

    fn resources_mut(&self) -> RwLockWriteGuard<'_, Registry<Resource>> {
        self.resources.write()
    }

    fn templates_mut(&self) -> RwLockWriteGuard<'_, Registry<ResourceTemplate>> {
        self.templates.write()
    }
}

/// The target of a URI.
/// Result of looking up a resource to read.
pub(crate) enum ReadReply {
    /// Its contents, yet to be read, and how long they may be cached, if its author says so.
    Contents(Reading, Option<CacheHint>),
    /// The whole reply, as another server gives it.
    Forwarded(Reply),
}

enum Target {
    Resource(Arc<Resource>),
    Template(Arc<ResourceTemplate>),
    /// A resource of this provider, if it exists.
    Provided(Arc<dyn ResourceProvider>),
}

/// The error for a failed read.
pub(crate) fn read_failure(uri: &str, error: ReadError) -> RpcError {
    match error {
        ReadError::NotFound => RpcError::resource_not_found(uri),
        ReadError::Denied(details) => denied(uri, &details),
        ReadError::Failed(details) => {
            tracing::warn!(uri, details, "reading a resource failed");
            RpcError::internal().details(details).with("uri", uri)
        }
    }
}

fn denied(uri: &str, details: &str) -> RpcError {
    RpcError::new(ACCESS_DENIED).details(details).with("uri", uri)
}

/// Longest URI of a resource.
pub(crate) const MAX_URI_LENGTH: usize = 8 * 1024;
