//! The table of methods and their handlers.

use std::sync::Arc;

use mcp_flow_proto::Revision;

use crate::handler::Handler;

/// Handlers by method name.
#[derive(Default)]
pub struct Router {
    // There are a few dozen methods at most; comparing them one by one beats hashing.
    routes: Vec<Route>,
}

struct Route {
    method: &'static str,
    handler: Arc<dyn Handler>,
    era: Era,
    before_initialize: bool,
}

/// The protocol revisions a method belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// All revisions.
    Both,
    /// Revisions with a handshake.
    Handshake,
    /// Stateless revisions.
    Stateless,
}

impl Era {
    pub(crate) fn includes(self, revision: Revision) -> bool {
        match self {
            Self::Both => true,
            Self::Handshake => !revision.is_stateless(),
            Self::Stateless => revision.is_stateless(),
        }
    }
}

impl Router {
    /// Adds a method, replacing one of the same name.
    pub fn add(&mut self, method: &'static str, era: Era, handler: impl Handler) {
        self.insert(Route { method, handler: Arc::new(handler), era, before_initialize: false });
    }

    /// Adds a method that is also served before `initialize`.
    pub fn add_early(&mut self, method: &'static str, era: Era, handler: impl Handler) {
        self.insert(Route { method, handler: Arc::new(handler), era, before_initialize: true });
    }

    /// The handler of a method in a revision.
    pub fn find(&self, method: &str, revision: Revision) -> Option<&Arc<dyn Handler>> {
        let route = self.route(method)?;
        route.era.includes(revision).then_some(&route.handler)
    }

    /// The handler of a method that may precede `initialize`.
    pub fn find_early(&self, method: &str) -> Option<&Arc<dyn Handler>> {
        let route = self.route(method)?;
        route.before_initialize.then_some(&route.handler)
    }

    /// The name of a method, if it exists in any revision.
    pub(crate) fn name(&self, method: &str) -> Option<&'static str> {
        self.route(method).map(|route| route.method)
    }

    fn route(&self, method: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.method == method)
    }

    fn insert(&mut self, route: Route) {
        self.routes.retain(|other| other.method != route.method);
        self.routes.push(route);
    }
}
