//! Callers of upstreams, and the connections that they share.

use mcp_flow_proto::model::LogLevel;
use mcp_flow_server::Context;
use mcp_flow_server::context::Client;

use crate::question::AskCapabilities;
use crate::settings::{Isolation, UpstreamSettings};

/// The caller that a connection to an upstream is used for.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: String,
    /// Its connection; `None` for stateless callers, and for those that are gone.
    session: Option<(usize, Client)>,
    pub(crate) may_be_asked: bool,
    has_roots: bool,
    /// Log messages that it wants.
    pub(crate) log_level: Option<LogLevel>,
}

impl Caller {
    /// The caller of a request.
    pub(crate) fn of(context: &Context) -> Self {
        let has_session = !context.revision().is_stateless();
        Self {
            principal: context.principal().name().to_owned(),
            session: has_session.then(|| (context.connection_number(), context.client())),
            may_be_asked: AskCapabilities::of(context).any(),
            has_roots: AskCapabilities::of(context).roots(),
            log_level: context.log_level(),
        }
    }

    /// The caller as one that is not asked, so that it shares connections.
    pub(crate) fn unasked(self) -> Self {
        Self { may_be_asked: false, ..self }
    }

    /// A caller whose request has ended, before its call did.
    pub(crate) fn absent(principal: &str) -> Self {
        let principal = principal.to_owned();
        Self { principal, session: None, may_be_asked: true, has_roots: false, log_level: None }
    }

    /// The connection of the caller, if connections to the upstream are for it alone and it has roots.
    pub(crate) fn roots(&self, key: &PoolKey) -> Option<Client> {
        self.ends_with(key).filter(|_| self.has_roots).map(Client::outside_the_call)
    }

    /// The connection of the caller, if connections to the upstream end with it.
    pub(crate) fn ends_with(&self, key: &PoolKey) -> Option<&Client> {
        match (key, &self.session) {
            (PoolKey::Session(_), Some((_, client))) => Some(client),
            _ => None,
        }
    }
}

/// Identifies the callers that share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PoolKey {
    /// All callers, and the gateway itself when it lists definitions.
    Shared,
    /// The callers with one principal.
    Principal(String),
    /// The callers of one connection, by its number.
    Session(usize),
}

impl PoolKey {
    /// The key of a caller.
    pub(crate) fn of(caller: &Caller, settings: &UpstreamSettings) -> Self {
        match (settings.isolation, &caller.session) {
            // Its connections have the account of one principal.
            _ if settings.accounts.is_some() => Self::Principal(caller.principal.clone()),
            (Isolation::Shared, _) => Self::Shared,
            (Isolation::Session, Some((number, _))) => Self::Session(*number),
            // A stateless caller has no session.
            (Isolation::Session | Isolation::Principal, _) => {
                Self::Principal(caller.principal.clone())
            }
        }
    }
}
