//! Negotiation of the protocol revision with a server.
//!
//! `server/discover` (2026-07-28) is tried first; if the server does not know it or does not reply
//! in time, `initialize` follows. An error code that only 2026-07-28 defines never leads back to
//! `initialize`.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::model::{
    ClientCapabilities, Icon, Implementation, ServerCapabilities, is_website,
};
use mcp_flow_proto::{OwnedRaw, Raw, Revision, method};
use serde_json::{Map, Value, json};

use super::era;
use crate::client::ClientInner;
use crate::connection::pending::{Reply, RequestFailure};
use crate::connection::{Connection, Exchange, RequestError, RequestExtras};
use crate::error::{Error, ServerError};
use crate::host::declare;
use crate::options::RevisionPolicy;
use crate::transport::TransportError;

/// Negotiated revision, and the server's description of itself, which is untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Negotiated revision.
    pub revision: Revision,
    /// Name and version.
    pub implementation: Implementation,
    /// Declared capabilities.
    pub capabilities: ServerCapabilities,
    /// Instructions for a model on how to use the server.
    pub instructions: Option<String>,
}

impl ServerInfo {
    /// The declaration of the interaction protocol, in `experimental` or `extensions` (C-10).
    pub fn interaction(&self) -> Option<&Value> {
        let experimental = self.capabilities.experimental.get("interaction");
        let mut extensions = self.capabilities.extensions.iter();
        experimental.or_else(|| {
            let found = extensions.find(|(name, _)| name.ends_with("/interaction"));
            found.map(|(_, declared)| declared)
        })
    }
}

/// Failure of the handshake.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// The server does not support this transport.
    Unsuitable(TransportError),
    /// The connection was lost on `server/discover`.
    LostOnProbe(TransportError),
    /// Any other failure.
    Failed(Error),
}

/// Performs the handshake on a new connection.
pub(crate) async fn negotiate(
    inner: &Arc<ClientInner>,
    connection: &Arc<Connection>,
    origin: Option<String>,
    legacy: bool,
) -> Result<(), HandshakeError> {
    let origin = origin.as_deref();
    let handshake = Handshake { inner, connection };
    match inner.options.revision {
        RevisionPolicy::Only(revision) if revision.is_stateless() => {
            handshake.discover_only().await
        }
        RevisionPolicy::Only(revision) => handshake.initialize(revision).await,
        RevisionPolicy::Any if legacy || handshake.needs_initialize() => {
            handshake.initialize(NEWEST_HANDSHAKE).await
        }
        RevisionPolicy::Any if era::is_legacy(origin) => {
            let agreed = handshake.initialize(NEWEST_HANDSHAKE).await;
            if let Err(HandshakeError::Failed(Error::Server(_))) = agreed {
                // The cached era is outdated.
                era::remember(origin, false);
                return handshake.probe().await;
            }
            agreed
        }
        RevisionPolicy::Any => {
            let agreed = handshake.probe().await;
            if agreed.is_ok() {
                era::remember(origin, !connection.revision().is_stateless());
            }
            agreed
        }
    }
}

/// `_meta` members of a stateless request, without braces.
pub(crate) fn own_meta(
    inner: &ClientInner,
    capabilities: &ClientCapabilities,
    revision: Revision,
) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": revision.name(),
        "io.modelcontextprotocol/clientInfo": inner.options.client.for_revision(revision),
        "io.modelcontextprotocol/clientCapabilities": declare(capabilities, revision),
    });
    let text = meta.to_string();
    text[1..text.len() - 1].to_owned()
}

/// Pings the server, by `server/discover` where the revision has no ping.
pub(crate) async fn ping(connection: &Arc<Connection>, limit: Duration) -> bool {
    let method = match connection.revision().is_stateless() {
        true => method::SERVER_DISCOVER,
        false => method::PING,
    };
    let Ok(mut exchange) = connection.request(method.into(), &json!({}), &RequestExtras::default())
    else {
        return false;
    };
    match tokio::time::timeout(limit, exchange.reply()).await {
        // An error response shows that the server is alive, too.
        Ok(Ok(_) | Err(RequestFailure::Server(_))) => true,
        Ok(Err(RequestFailure::Transport(_))) | Err(_) => false,
    }
}

struct Handshake<'a> {
    inner: &'a Arc<ClientInner>,
    connection: &'a Arc<Connection>,
}

impl Handshake<'_> {
    /// Tries `server/discover`, and `initialize` if that fails.
    async fn probe(&self) -> Result<(), HandshakeError> {
        let mut probe = self.ask_discover()?;
        let first = tokio::time::timeout(self.inner.options.probe_timeout, probe.reply()).await;
        let Ok(reply) = first else { return self.race_initialize(probe).await };
        match self.read_probe(reply)? {
            ProbeOutcome::Modern(result) => self.take_discovered(&result),
            ProbeOutcome::Handshake(revision) => self.initialize(revision).await,
            ProbeOutcome::Again => self.discover_only().await,
        }
    }

    /// Sends `initialize` while `server/discover` is pending: the server may be old or only slow.
    /// The first usable response wins.
    async fn race_initialize(&self, mut probe: Exchange) -> Result<(), HandshakeError> {
        let mut old = self.ask_initialize(NEWEST_HANDSHAKE)?;
        tokio::select! {
            biased;
            reply = probe.reply() => match self.read_probe(reply)? {
                ProbeOutcome::Modern(result) => self.take_discovered(&result),
                ProbeOutcome::Handshake(NEWEST_HANDSHAKE) => {
                    self.settle_handshake(NEWEST_HANDSHAKE, old.reply().await).await
                }
                ProbeOutcome::Handshake(revision) => self.initialize(revision).await,
                ProbeOutcome::Again => self.discover_only().await,
            },
            reply = old.reply() => {
                probe.keeps_on_drop = true;
                self.settle_handshake(NEWEST_HANDSHAKE, reply).await
            }
        }
    }

    async fn discover_only(&self) -> Result<(), HandshakeError> {
        let reply = self.ask_discover()?.reply().await;
        match reply {
            Ok(result) => {
                let versions = names(result.as_raw(), "supportedVersions");
                let newest = Revision::V2026_07_28;
                // A server that lists no versions has at least understood the request.
                match versions.is_empty() || versions.iter().any(|name| name == newest.name()) {
                    true => self.take_discovered(&result),
                    false => Err(HandshakeError::Failed(not_spoken(newest, &versions.join(", ")))),
                }
            }
            Err(RequestFailure::Server(error)) if error.code == -32601 => {
                let older = "an older revision";
                Err(HandshakeError::Failed(not_spoken(Revision::V2026_07_28, older)))
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn ask_discover(&self) -> Result<Exchange, HandshakeError> {
        let meta = self.own_meta(Revision::V2026_07_28);
        let extras = RequestExtras { meta: &meta, ..RequestExtras::default() };
        let asked = self.connection.request(method::SERVER_DISCOVER.into(), &json!({}), &extras);
        asked.map_err(|error| self.unsent(error)).map(uncancelled)
    }

    /// Decides from the response to `server/discover` how to go on.
    fn read_probe(&self, reply: Reply) -> Result<ProbeOutcome, HandshakeError> {
        match reply {
            Ok(result) => {
                let versions = names(result.as_raw(), "supportedVersions");
                match choose(&versions) {
                    Some(revision) if revision.is_stateless() => Ok(ProbeOutcome::Modern(result)),
                    Some(revision) => Ok(ProbeOutcome::Handshake(revision)),
                    // An old server that sends a result for any method.
                    None if versions.is_empty() => Ok(ProbeOutcome::Handshake(NEWEST_HANDSHAKE)),
                    None => Err(HandshakeError::Failed(no_common(&versions))),
                }
            }
            Err(RequestFailure::Server(error)) if is_modern(&error) => {
                let versions = listed(&error);
                match choose(&versions) {
                    Some(revision) if !revision.is_stateless() => {
                        Ok(ProbeOutcome::Handshake(revision))
                    }
                    // It rejects a version that it lists; a retry may succeed.
                    Some(_) => Ok(ProbeOutcome::Again),
                    _ if versions.is_empty() => Err(HandshakeError::Failed(error.into())),
                    _ => Err(HandshakeError::Failed(no_common(&versions))),
                }
            }
            Err(RequestFailure::Server(_)) => Ok(ProbeOutcome::Handshake(NEWEST_HANDSHAKE)),
            Err(RequestFailure::Transport(
                TransportError::Unsuitable(_) | TransportError::Refused { .. },
            )) => Ok(ProbeOutcome::Handshake(NEWEST_HANDSHAKE)),
            Err(RequestFailure::Transport(source)) if source.is_lost() => {
                Err(HandshakeError::LostOnProbe(source))
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn take_discovered(&self, result: &OwnedRaw) -> Result<(), HandshakeError> {
        let members: Map<String, Value> = result.as_raw().decode().map_err(|error| {
            let what = format!("malformed result of server/discover: {error}");
            HandshakeError::Failed(Error::Protocol(what))
        })?;
        let info = members
            .get("_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"))
            .cloned()
            .unwrap_or_default();
        self.settle(Revision::V2026_07_28, &members, info);
        Ok(())
    }

    async fn initialize(&self, revision: Revision) -> Result<(), HandshakeError> {
        let reply = self.ask_initialize(revision)?.reply().await;
        self.settle_handshake(revision, reply).await
    }

    /// Handles the response to `initialize`. If the server rejects the revision and lists others,
    /// the newest one known here is tried once (C-04).
    async fn settle_handshake(&self, asked: Revision, reply: Reply) -> Result<(), HandshakeError> {
        let other = match (&reply, self.inner.options.revision) {
            (Err(RequestFailure::Server(error)), RevisionPolicy::Any) => {
                let named = listed(error);
                let spoken = named.iter().filter_map(|name| Revision::from_name(name));
                spoken.filter(|other| !other.is_stateless() && *other != asked).max()
            }
            _ => None,
        };
        match other {
            Some(other) => self.take_initialized(self.ask_initialize(other)?.reply().await),
            None => self.take_initialized(reply),
        }
    }

    fn ask_initialize(&self, revision: Revision) -> Result<Exchange, HandshakeError> {
        let mut params = json!({
            "protocolVersion": revision.name(),
            "capabilities": declare(&self.inner.capabilities(), revision),
            "clientInfo": self.inner.options.client.for_revision(revision),
        });
        if let Some(transport) = self.connection.transport() {
            for (name, value) in transport.initialize_params() {
                params[name] = value;
            }
        }
        let asked =
            self.connection.request(method::INITIALIZE.into(), &params, &RequestExtras::default());
        asked.map_err(|error| self.unsent(error)).map(uncancelled)
    }

    fn take_initialized(&self, reply: Reply) -> Result<(), HandshakeError> {
        let result = reply.map_err(|failed| self.failed(failed))?;
        let members: Map<String, Value> = result.as_raw().decode().map_err(|error| {
            let what = format!("malformed result of initialize: {error}");
            HandshakeError::Failed(Error::Protocol(what))
        })?;
        let named = members.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let known = Revision::from_name(named).filter(|revision| !revision.is_stateless());
        let Some(revision) = known else {
            return Err(HandshakeError::Failed(no_common(&[named.to_owned()])));
        };
        if let RevisionPolicy::Only(wanted) = self.inner.options.revision
            && wanted != revision
        {
            return Err(HandshakeError::Failed(not_spoken(wanted, named)));
        }
        let info = members.get("serverInfo").cloned().unwrap_or_default();
        self.settle(revision, &members, info);
        self.connection.notify(method::INITIALIZED.into(), &json!({}));
        Ok(())
    }

    fn settle(&self, revision: Revision, members: &Map<String, Value>, info: Value) {
        let text = |name: &str| info.get(name).and_then(Value::as_str).map(str::to_owned);
        let implementation = Implementation {
            name: text("name").unwrap_or_else(|| "unnamed server".to_owned()),
            version: text("version").unwrap_or_default(),
            title: text("title"),
            description: text("description"),
            icons: Icon::displayable(info.get("icons").cloned().unwrap_or_default()),
            website_url: text("websiteUrl").filter(|url| is_website(url)),
        };
        // Changes may have been missed since the last connection.
        self.inner.cache.clear();
        let capabilities = members.get("capabilities").cloned().unwrap_or_default();
        let info = ServerInfo {
            revision,
            implementation,
            capabilities: serde_json::from_value(capabilities).unwrap_or_default(),
            instructions: members.get("instructions").and_then(Value::as_str).map(str::to_owned),
        };
        self.connection.set_server_info(info, self.own_meta(revision));
    }

    /// The `_meta` members of every stateless request, without braces.
    fn own_meta(&self, revision: Revision) -> String {
        let capabilities = self.inner.with_tasks(self.inner.capabilities());
        own_meta(self.inner, &capabilities, revision)
    }

    fn needs_initialize(&self) -> bool {
        self.connection.transport().is_some_and(|transport| transport.needs_initialize())
    }

    fn unsent(&self, error: RequestError) -> HandshakeError {
        match error {
            RequestError::Unsent(source) => self.failed(RequestFailure::Transport(source)),
            RequestError::Usage(what) => HandshakeError::Failed(Error::Usage(what)),
        }
    }

    fn failed(&self, failed: RequestFailure) -> HandshakeError {
        let source = match failed {
            RequestFailure::Server(error) => return HandshakeError::Failed(error.into()),
            RequestFailure::Transport(source @ TransportError::Unsuitable(_)) => {
                return HandshakeError::Unsuitable(source);
            }
            RequestFailure::Transport(TransportError::InvalidMessage(what)) => {
                return HandshakeError::Failed(Error::Protocol(what));
            }
            RequestFailure::Transport(source) => source,
        };
        HandshakeError::Failed(Error::Connect { target: self.inner.target.clone(), source })
    }
}

enum ProbeOutcome {
    Modern(OwnedRaw),
    Handshake(Revision),
    Again,
}

fn uncancelled(mut exchange: Exchange) -> Exchange {
    exchange.keeps_on_drop = true;
    exchange
}

/// Returns whether only 2026-07-28 defines this error code.
fn is_modern(error: &ServerError) -> bool {
    matches!(error.code, -32022..=-32020)
}

fn listed(error: &ServerError) -> Vec<String> {
    let list = error.data.get("supported").or_else(|| error.data.get("supportedVersions"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).take(MAX_VERSIONS).map(str::to_owned).collect()
}

fn names(result: Raw<'_>, member: &str) -> Vec<String> {
    let found = result.members([member]).ok().and_then(|[list]| list);
    let list: Vec<Value> = found.and_then(|list| list.decode().ok()).unwrap_or_default();
    list.iter().filter_map(Value::as_str).take(MAX_VERSIONS).map(str::to_owned).collect()
}

/// The newest of these revisions that is known here.
fn choose(names: &[String]) -> Option<Revision> {
    names.iter().filter_map(|name| Revision::from_name(name)).max()
}

fn no_common(names: &[String]) -> Error {
    let theirs: Vec<_> = names.iter().map(|name| crate::sanitize::shorten(name, 32)).collect();
    let ours: Vec<_> = Revision::ALL.iter().map(|revision| revision.name()).collect();
    Error::Protocol(format!(
        "no common protocol revision: the server supports {}, this client {}",
        theirs.join(", "),
        ours.join(", ")
    ))
}

/// The error for a server that does not support the required revision.
fn not_spoken(wanted: Revision, theirs: &str) -> Error {
    Error::Revision { wanted, offered: crate::sanitize::shorten(theirs, 200) }
}

const NEWEST_HANDSHAKE: Revision = Revision::V2025_11_25;

/// Maximum number of versions read of a server's list.
const MAX_VERSIONS: usize = 64;
