//! Which handler answers which method.

use std::collections::HashMap;
use std::sync::Arc;

use mcp_flow_proto::Revision;

use crate::handler::Handler;

/// Methods by name.
#[derive(Default)]
pub struct Router {
    routes: HashMap<&'static str, Route>,
}

struct Route {
    handler: Arc<dyn Handler>,
    era: Era,
    before_initialize: bool,
}

/// Under which revisions a method exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// All of them.
    Both,
    /// Those that begin with a handshake.
    Handshake,
    /// Those without one.
    Stateless,
}

impl Era {
    fn includes(self, revision: Revision) -> bool {
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
        let route = Route { handler: Arc::new(handler), era, before_initialize: false };
        self.routes.insert(method, route);
    }

    /// Adds a method of the handshake era that is served before `initialize` too.
    pub fn add_early(&mut self, method: &'static str, handler: impl Handler) {
        let route =
            Route { handler: Arc::new(handler), era: Era::Handshake, before_initialize: true };
        self.routes.insert(method, route);
    }

    /// The handler of a method under a revision.
    pub fn find(&self, method: &str, revision: Revision) -> Option<&Arc<dyn Handler>> {
        let route = self.routes.get(method)?;
        route.era.includes(revision).then_some(&route.handler)
    }

    /// The handler of a method that may come before `initialize`.
    pub fn find_early(&self, method: &str) -> Option<&Arc<dyn Handler>> {
        let route = self.routes.get(method)?;
        route.before_initialize.then_some(&route.handler)
    }
}
