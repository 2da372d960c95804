//! Resources of upstreams, under their own URIs.
//!
//! A URI belongs to the first upstream, in the order of the configuration, that lists it; otherwise to
//! the one with the narrowest template that matches; otherwise to the one whose results linked to it.
//! Others that list it have it with their name before it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use mcp_flow_client::{ChangeFilter, CompletionReference, ServerChange, sanitize};
use mcp_flow_proto::Raw;
use mcp_flow_proto::model::{Content, ResourceDefinition, TemplateDefinition};
use mcp_flow_server::resource::{ReadError, ResourcePage, ResourceProvider, WatchGuard};
use mcp_flow_server::{Bulk, Context, Reply, Server, WeakServer};
use parking_lot::{Mutex, RwLock};

use crate::breaker::backoff;
use crate::forward::Forwarded;
use crate::isolation::{Caller, PoolKey};
use crate::pool::AbortOnDrop;
use crate::registration;
use crate::session::Sessions;
use crate::upstream::Upstream;
use crate::uri_template::{TemplatePattern, has_scheme};

/// Resources of all upstreams.
#[derive(Debug, Default)]
pub(crate) struct UpstreamResources {
    routes: RwLock<Arc<Routes>>,
    /// Upstreams, to find links in.
    upstreams: RwLock<Vec<Arc<Upstream>>>,
    watches: Mutex<Watches>,
}

/// Subscriptions by the URI and the callers that share a connection.
type Watches = HashMap<(Arc<str>, PoolKey), Weak<AbortOnDrop>>;

#[derive(Debug, Default)]
struct Routes {
    listed: Vec<(ResourceDefinition, Route)>,
    by_uri: HashMap<String, usize>,
    templates: Vec<(TemplateDefinition, Option<TemplatePattern>, Route)>,
}

/// Upstream of a resource or a template.
#[derive(Clone, Debug)]
struct Route {
    upstream: Arc<Upstream>,
    /// Part of the URI that the gateway added, because another upstream has the rest.
    alias: String,
}

impl Route {
    /// The upstream's own URI.
    fn own<'a>(&self, uri: &'a str) -> &'a str {
        uri.strip_prefix(self.alias.as_str()).unwrap_or(uri)
    }
}

impl UpstreamResources {
    /// Takes over the resources that the upstreams list now, in the order of the configuration.
    pub(crate) fn update(&self, upstreams: &[Arc<Upstream>]) {
        let mut routes = Routes::default();
        for upstream in upstreams {
            let definitions = upstream.definitions();
            let mut collisions = 0;
            let resources = definitions.resources.iter();
            for resource in resources.filter(|known| is_usable(upstream, &known.uri)) {
                let is_taken = |uri: &str| routes.by_uri.contains_key(uri);
                let Some(route) = assign(upstream, &resource.uri, is_taken) else {
                    collisions += 1;
                    continue;
                };
                collisions += usize::from(!route.alias.is_empty());
                let mut resource = resource.clone();
                resource.uri.insert_str(0, &route.alias);
                routes.by_uri.insert(resource.uri.clone(), routes.listed.len());
                routes.listed.push((resource, route));
            }
            let templates = definitions.templates.iter();
            for template in templates.filter(|known| is_usable(upstream, &known.uri_template)) {
                let is_taken = |text: &str| {
                    routes.templates.iter().any(|(known, ..)| known.uri_template == text)
                };
                let Some(route) = assign(upstream, &template.uri_template, is_taken) else {
                    collisions += 1;
                    continue;
                };
                collisions += usize::from(!route.alias.is_empty());
                let mut template = template.clone();
                template.uri_template.insert_str(0, &route.alias);
                let pattern = TemplatePattern::parse(&template.uri_template);
                routes.templates.push((template, pattern, route));
            }
            if upstream.collisions.swap(collisions, Ordering::Relaxed) != collisions {
                tracing::warn!(
                    server = upstream.name(),
                    "{collisions} of its resources have URIs of other servers, and are served under other URIs"
                );
            }
        }
        *self.routes.write() = Arc::new(routes);
        *self.upstreams.write() = upstreams.to_vec();
    }

    fn routes(&self) -> Arc<Routes> {
        self.routes.read().clone()
    }

    /// The upstream that a URI belongs to.
    fn route(&self, uri: &str) -> Option<Route> {
        let routes = self.routes();
        if let Some((_, route)) = routes.by_uri.get(uri).and_then(|at| routes.listed.get(*at)) {
            return Some(route.clone());
        }
        // Of equal ones, the first.
        let templates = routes.templates.iter().rev().filter_map(|(_, pattern, route)| {
            let pattern = pattern.as_ref().filter(|pattern| pattern.matches(uri))?;
            Some((pattern.literal_prefix(), route))
        });
        if let Some((_, route)) = templates.max_by_key(|(prefix, _)| *prefix) {
            return Some(route.clone());
        }
        let upstreams = self.upstreams.read();
        let linked = upstreams.iter().find(|upstream| upstream.links.contains(uri)).cloned();
        linked.map(|upstream| Route { upstream, alias: String::new() })
    }
}

/// Returns whether a URI or a template can be served: without a scheme, nobody could read it, and a
/// template would match what others have.
fn is_usable(upstream: &Upstream, uri: &str) -> bool {
    let is_usable = has_scheme(uri);
    if !is_usable {
        let uri = sanitize::shorten(uri, 200);
        tracing::warn!(server = upstream.name(), "{uri:?} is no URI, and is not served");
    }
    is_usable
}

/// The route of a URI or template that an upstream lists: its own, or with the upstream's name before
/// it if another has that; `None` if that is taken as well.
fn assign(upstream: &Arc<Upstream>, uri: &str, is_taken: impl Fn(&str) -> bool) -> Option<Route> {
    let alias = match is_taken(uri) {
        false => String::new(),
        true => {
            let prefix = upstream.prefix.replace('_', "-");
            // A scheme begins with a letter.
            let begins = if prefix.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
                ""
            } else {
                "server-"
            };
            format!("{begins}{prefix}+")
        }
    };
    let is_unusable = !alias.is_empty() && is_taken(&format!("{alias}{uri}"));
    (!is_unusable).then(|| Route { upstream: upstream.clone(), alias })
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

    fn watch(&self, context: &Context, uri: &Arc<str>) -> Result<WatchGuard, ReadError> {
        let route = self.0.route(uri).ok_or(ReadError::NotFound)?;
        let caller = Caller::of(context);
        let key = (uri.clone(), PoolKey::of(&caller, &route.upstream.settings));
        let mut watches = self.0.watches.lock();
        watches.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = watches.get(&key).and_then(Weak::upgrade) {
            return Ok(Box::new(watch));
        }
        let resources = Arc::downgrade(&self.0);
        let task = watch(resources, context.server().downgrade(), uri.clone(), caller);
        let watch = Arc::new(AbortOnDrop(tokio::spawn(task).abort_handle()));
        watches.insert(key, Arc::downgrade(&watch));
        Ok(Box::new(watch))
    }

    fn templates(&self) -> Vec<TemplateDefinition> {
        self.0.routes().templates.iter().map(|(template, ..)| template.clone()).collect()
    }

    fn forward_read(&self, context: &Context, uri: &str) -> Option<Reply> {
        let route = self.0.route(uri)?;
        let uri = route.own(uri).to_owned();
        let request = Forwarded::Read { uri, alias: route.alias, meta: context.meta().clone() };
        let sessions = self.1.clone();
        Some(Reply::Later(Box::pin(request.run(route.upstream, sessions, context.clone()))))
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
        let (_, _, route) =
            routes.templates.iter().find(|(known, ..)| known.uri_template == template)?;
        let reference = CompletionReference::Template(route.own(template).to_owned());
        Some(registration::complete(&route.upstream, context, reference, argument, value, others))
    }
}

/// Tells subscribers of changes of a resource, for as long as there are any. A subscription that cannot be
/// made or ends is made again, and then the resource may have changed.
async fn watch(
    resources: Weak<UpstreamResources>,
    server: WeakServer,
    uri: Arc<str>,
    caller: Caller,
) {
    let (mut failures, mut was_lost) = (0, false);
    loop {
        // It may have another upstream by now.
        let Some(route) = resources.upgrade().map(|resources| resources.route(&uri)) else {
            return;
        };
        if let Some(route) = route {
            let begun = Instant::now();
            let subscribed = follow(&route, &server, &uri, &caller, was_lost).await;
            if let Err(problem) = subscribed
                && failures == 0
            {
                tracing::warn!(server = route.upstream.name(), "cannot subscribe: {problem}");
            }
            if begun.elapsed() > LASTING {
                failures = 0;
            }
        }
        was_lost = true;
        failures += 1;
        tokio::time::sleep(backoff(failures)).await;
    }
}

/// Subscribes to a resource, and passes on its changes until the subscription ends.
async fn follow(
    route: &Route,
    server: &WeakServer,
    uri: &str,
    caller: &Caller,
    was_lost: bool,
) -> Result<(), String> {
    let lease = route.upstream.subscription_lease(caller).await;
    let lease = lease.map_err(|error| error.text().to_owned())?;
    let filter = ChangeFilter::new().resource(route.own(uri));
    let subscribed = lease.client().listen(filter).await;
    let mut changes = subscribed.map_err(|failure| sanitize::shorten(&failure.to_string(), 500))?;
    let changed = |changed: &str| server.upgrade().map(|server| server.resource_changed(changed));
    if was_lost {
        changed(uri);
    }
    while let Some(Ok(change)) = changes.next().await {
        let told = match change {
            ServerChange::Resource(own) => changed(&format!("{}{own}", route.alias)),
            // Changes may have been missed.
            _ => changed(uri),
        };
        if told.is_none() {
            break;
        }
    }
    Ok(())
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

/// A subscription that lasts this long ended for another reason than those before it.
const LASTING: Duration = Duration::from_secs(60);

/// Limit on links remembered per upstream.
const MAX_LINKS: usize = 1000;

/// Limit on the length of a link that is remembered.
const MAX_LINK_LENGTH: usize = 2048;
