//! Resources of upstreams, under their own URIs.
//!
//! A URI belongs to the first upstream, in the order of the configuration, that lists it; otherwise to
//! the first with a template that matches; otherwise to the one whose results linked to it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use mcp_flow_client::{ChangeFilter, CompletionReference, ServerChange, sanitize};
use mcp_flow_proto::Raw;
use mcp_flow_proto::model::{Content, ResourceDefinition, TemplateDefinition};
use mcp_flow_server::resource::{ReadError, ResourcePage, ResourceProvider, WatchGuard};
use mcp_flow_server::{Bulk, Context, Reply, Server};
use parking_lot::{Mutex, RwLock};

use crate::forward::Forwarded;
use crate::pool::AbortOnDrop;
use crate::registration;
use crate::session::Sessions;
use crate::upstream::Upstream;
use crate::uri_template::TemplatePattern;

/// Resources of all upstreams.
#[derive(Debug, Default)]
pub(crate) struct UpstreamResources {
    routes: RwLock<Arc<Routes>>,
    /// Upstreams, to find links in.
    upstreams: RwLock<Vec<Arc<Upstream>>>,
    watches: Mutex<HashMap<Arc<str>, Weak<AbortOnDrop>>>,
}

#[derive(Debug, Default)]
struct Routes {
    listed: Vec<(ResourceDefinition, Arc<Upstream>)>,
    by_uri: HashMap<String, usize>,
    templates: Vec<(TemplateDefinition, Option<TemplatePattern>, Arc<Upstream>)>,
}

impl UpstreamResources {
    /// Takes over the resources that the upstreams list now, in the order of the configuration.
    pub(crate) fn update(&self, upstreams: &[Arc<Upstream>]) {
        let mut routes = Routes::default();
        for upstream in upstreams {
            let definitions = upstream.definitions();
            for resource in &definitions.resources {
                if routes.by_uri.contains_key(&resource.uri) {
                    let uri = sanitize::shorten(&resource.uri, 200);
                    tracing::warn!(server = upstream.name(), "another server has {uri} already");
                    continue;
                }
                routes.by_uri.insert(resource.uri.clone(), routes.listed.len());
                routes.listed.push((resource.clone(), upstream.clone()));
            }
            for template in &definitions.templates {
                let text = &template.uri_template;
                if routes.templates.iter().any(|(known, ..)| known.uri_template == *text) {
                    let text = sanitize::shorten(text, 200);
                    tracing::warn!(server = upstream.name(), "another server has {text} already");
                    continue;
                }
                let pattern = TemplatePattern::parse(text);
                routes.templates.push((template.clone(), pattern, upstream.clone()));
            }
        }
        *self.routes.write() = Arc::new(routes);
        *self.upstreams.write() = upstreams.to_vec();
    }

    fn routes(&self) -> Arc<Routes> {
        self.routes.read().clone()
    }

    /// The upstream that a URI belongs to.
    fn route(&self, uri: &str) -> Option<Arc<Upstream>> {
        let routes = self.routes();
        if let Some((_, upstream)) = routes.by_uri.get(uri).and_then(|at| routes.listed.get(*at)) {
            return Some(upstream.clone());
        }
        let matches = |pattern: &Option<TemplatePattern>| {
            pattern.as_ref().is_some_and(|pattern| pattern.matches(uri))
        };
        let template = routes.templates.iter().find(|(_, pattern, _)| matches(pattern));
        if let Some((_, _, upstream)) = template {
            return Some(upstream.clone());
        }
        let upstreams = self.upstreams.read();
        upstreams.iter().find(|upstream| upstream.links.contains(uri)).cloned()
    }
}

/// The resources of all upstreams, as the server uses them.
#[derive(Clone)]
pub(crate) struct ProvidedResources(pub(crate) Arc<UpstreamResources>, pub(crate) Arc<Sessions>);

impl ResourceProvider for ProvidedResources {
    fn claims(&self, uri: &str) -> bool {
        self.0.route(uri).is_some()
    }

    fn listed_uris(&self, uri: &str) -> Vec<String> {
        vec![uri.to_owned()]
    }

    fn list(
        &self,
        _: &Server,
        position: &[u8],
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> ResourcePage {
        let routes = self.0.routes();
        let start = position.try_into().map_or(0, u64::from_be_bytes);
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let mut page = ResourcePage::default();
        for (index, (definition, _)) in routes.listed.iter().enumerate().skip(start) {
            if page.definitions.len() >= most {
                page.next = Some((index as u64).to_be_bytes().to_vec());
                break;
            }
            if is_visible(&definition.uri) {
                page.definitions.push(definition.clone());
            }
        }
        page
    }

    fn open(&self, uri: &str) -> Result<Bulk, ReadError> {
        // Called only to learn whether there is such a resource.
        match self.0.routes().by_uri.contains_key(uri) {
            true => Ok(Bulk::bytes(uri, Vec::new())),
            false => Err(ReadError::NotFound),
        }
    }

    fn watch(&self, server: &Server, uri: &Arc<str>) -> Result<WatchGuard, ReadError> {
        let Some(upstream) = self.0.route(uri) else { return Err(ReadError::NotFound) };
        let mut watches = self.0.watches.lock();
        watches.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = watches.get(uri).and_then(Weak::upgrade) {
            return Ok(Box::new(watch));
        }
        let (server, watched) = (server.downgrade(), uri.clone());
        let task = tokio::spawn(async move {
            let Ok(lease) = upstream.own_lease().await else { return };
            let filter = ChangeFilter::new().resource(&*watched);
            let mut changes = match lease.client().listen(filter).await {
                Ok(changes) => changes,
                Err(failure) => {
                    let failure = sanitize::shorten(&failure.to_string(), 500);
                    tracing::warn!(server = upstream.name(), "cannot subscribe: {failure}");
                    return;
                }
            };
            while let Some(Ok(change)) = changes.next().await {
                let Some(server) = server.upgrade() else { return };
                match change {
                    ServerChange::Resource(changed) => server.resource_changed(&changed),
                    // Changes may have been missed.
                    _ => server.resource_changed(&watched),
                }
            }
        });
        let watch = Arc::new(AbortOnDrop(task.abort_handle()));
        watches.insert(uri.clone(), Arc::downgrade(&watch));
        Ok(Box::new(watch))
    }

    fn templates(&self) -> Vec<TemplateDefinition> {
        self.0.routes().templates.iter().map(|(template, ..)| template.clone()).collect()
    }

    fn forward_read(&self, context: &Context, uri: &str) -> Option<Reply> {
        let upstream = self.0.route(uri)?;
        let request = Forwarded::Read { uri: uri.to_owned() };
        let sessions = self.1.clone();
        Some(Reply::Later(Box::pin(request.run(upstream, sessions, context.clone()))))
    }

    fn complete(
        &self,
        context: &Context,
        template: &str,
        argument: &str,
        value: &str,
        others: Raw<'_>,
    ) -> Option<Reply> {
        let routes = self.0.routes();
        let (_, _, upstream) =
            routes.templates.iter().find(|(known, ..)| known.uri_template == template)?;
        let reference = CompletionReference::Template(template.to_owned());
        Some(registration::complete(upstream, context, reference, argument, value, others))
    }
}

/// URIs that the results of one upstream linked to, the latest ones.
#[derive(Debug, Default)]
pub(crate) struct SeenLinks {
    uris: Mutex<VecDeque<String>>,
}

impl SeenLinks {
    /// Notes the URI of a link in a result.
    pub(crate) fn note(&self, content: &Content) {
        let uri = match content {
            Content::ResourceLink(link) => &link.uri,
            Content::Resource { resource, .. } => &resource.uri,
            _ => return,
        };
        let mut uris = self.uris.lock();
        if uri.len() > MAX_LINK_LENGTH || uris.iter().any(|known| known == uri) {
            return;
        }
        if uris.len() >= MAX_LINKS {
            uris.pop_front();
        }
        uris.push_back(uri.clone());
    }

    fn contains(&self, uri: &str) -> bool {
        self.uris.lock().iter().any(|known| known == uri)
    }
}

/// Limit on links remembered per upstream.
const MAX_LINKS: usize = 1000;

/// Limit on the length of a link that is remembered.
const MAX_LINK_LENGTH: usize = 2048;
