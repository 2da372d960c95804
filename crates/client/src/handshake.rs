//! Negotiation of the protocol revision with a server.
//!
//! `server/discover` (2026-07-28) is tried first; if the server does not know it or does not reply
//! in time, `initialize` follows. An error code that only 2026-07-28 defines never leads back to
//! `initialize`.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::model::{Implementation, ServerCapabilities};
use mcp_flow_proto::{OwnedRaw, Raw, Revision, method};
use serde_json::{Map, Value, json};

use crate::client::Shared;
use crate::era;
use crate::error::{Error, ServerError};
use crate::host::declare;
use crate::link::{Beside, Exchange, Link, RequestError};
use crate::options::Speak;
use crate::pending::{Failed, Reply};
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
pub(crate) enum Disagreement {
    /// The server does not speak this transport.
    Unsuitable(TransportError),
    /// The connection was lost on `server/discover`.
    DiedOfProbe,
    /// Any other failure.
    Failed(Error),
}

/// Performs the handshake on a new connection.
pub(crate) async fn agree(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    origin: Option<String>,
    legacy: bool,
) -> Result<(), Disagreement> {
    let origin = origin.as_deref();
    let talk = Talk { shared, link };
    match shared.options.speak {
        Speak::Only(revision) if revision.is_stateless() => talk.discover_only().await,
        Speak::Only(revision) => talk.initialize(revision).await,
        Speak::Any if legacy || talk.wants_handshake() => talk.initialize(NEWEST_HANDSHAKE).await,
        Speak::Any if era::is_legacy(origin) => {
            let agreed = talk.initialize(NEWEST_HANDSHAKE).await;
            if let Err(Disagreement::Failed(Error::Server(_))) = agreed {
                // The cached era is outdated.
                era::remember(origin, false);
                return talk.probe().await;
            }
            agreed
        }
        Speak::Any => {
            let agreed = talk.probe().await;
            if agreed.is_ok() {
                era::remember(origin, !link.revision().is_stateless());
            }
            agreed
        }
    }
}

/// Pings the server, by `server/discover` where the revision has no ping.
pub(crate) async fn ping(link: &Arc<Link>, limit: Duration) -> bool {
    let method = match link.revision().is_stateless() {
        true => method::SERVER_DISCOVER,
        false => method::PING,
    };
    let Ok(mut exchange) = link.request(method.into(), &json!({}), &Beside::default()) else {
        return false;
    };
    match tokio::time::timeout(limit, exchange.reply()).await {
        // An error response shows that the server is alive, too.
        Ok(Ok(_) | Err(Failed::Server(_))) => true,
        Ok(Err(Failed::Transport(_))) | Err(_) => false,
    }
}

struct Talk<'a> {
    shared: &'a Arc<Shared>,
    link: &'a Arc<Link>,
}

impl Talk<'_> {
    /// Tries `server/discover`, and `initialize` if that fails.
    async fn probe(&self) -> Result<(), Disagreement> {
        let mut probe = self.ask_discover()?;
        let first = tokio::time::timeout(self.shared.options.probe_limit, probe.reply()).await;
        let Ok(reply) = first else { return self.both(probe).await };
        match self.judge(reply)? {
            Verdict::Modern(result) => self.take_discovered(&result),
            Verdict::Handshake(revision) => self.initialize(revision).await,
            Verdict::Again => self.discover_only().await,
        }
    }

    /// Sends `initialize` while `server/discover` is pending: the server may be old or only slow. The
    /// first usable response wins.
    async fn both(&self, mut probe: Exchange) -> Result<(), Disagreement> {
        let mut old = self.ask_initialize(NEWEST_HANDSHAKE)?;
        tokio::select! {
            biased;
            reply = probe.reply() => match self.judge(reply)? {
                Verdict::Modern(result) => self.take_discovered(&result),
                Verdict::Handshake(NEWEST_HANDSHAKE) => {
                    self.settle_handshake(NEWEST_HANDSHAKE, old.reply().await).await
                }
                Verdict::Handshake(revision) => self.initialize(revision).await,
                Verdict::Again => self.discover_only().await,
            },
            reply = old.reply() => {
                probe.is_quiet = true;
                self.settle_handshake(NEWEST_HANDSHAKE, reply).await
            }
        }
    }

    async fn discover_only(&self) -> Result<(), Disagreement> {
        let reply = self.ask_discover()?.reply().await;
        match reply {
            Ok(result) => {
                let versions = names(result.as_raw(), "supportedVersions");
                let newest = Revision::V2026_07_28;
                // A server that lists no versions has at least understood the request.
                match versions.is_empty() || versions.iter().any(|name| name == newest.name()) {
                    true => self.take_discovered(&result),
                    false => Err(Disagreement::Failed(not_spoken(newest, &versions.join(", ")))),
                }
            }
            Err(Failed::Server(error)) if error.code == -32601 => {
                let older = "an older revision";
                Err(Disagreement::Failed(not_spoken(Revision::V2026_07_28, older)))
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn ask_discover(&self) -> Result<Exchange, Disagreement> {
        let meta = self.own_meta(Revision::V2026_07_28);
        let beside = Beside { meta: &meta, ..Beside::default() };
        let asked = self.link.request(method::SERVER_DISCOVER.into(), &json!({}), &beside);
        asked.map_err(|error| self.unsent(error)).map(quiet)
    }

    /// Decides from the response to `server/discover` how to go on.
    fn judge(&self, reply: Reply) -> Result<Verdict, Disagreement> {
        match reply {
            Ok(result) => {
                let versions = names(result.as_raw(), "supportedVersions");
                match choose(&versions) {
                    Some(revision) if revision.is_stateless() => Ok(Verdict::Modern(result)),
                    Some(revision) => Ok(Verdict::Handshake(revision)),
                    // An old server that sends a result for any method.
                    None if versions.is_empty() => Ok(Verdict::Handshake(NEWEST_HANDSHAKE)),
                    None => Err(Disagreement::Failed(no_common(&versions))),
                }
            }
            Err(Failed::Server(error)) if is_modern(&error) => {
                let versions = listed(&error);
                match choose(&versions) {
                    Some(revision) if !revision.is_stateless() => Ok(Verdict::Handshake(revision)),
                    // It rejects a version that it lists; a retry may succeed.
                    Some(_) => Ok(Verdict::Again),
                    _ if versions.is_empty() => Err(Disagreement::Failed(error.into())),
                    _ => Err(Disagreement::Failed(no_common(&versions))),
                }
            }
            Err(Failed::Server(_)) => Ok(Verdict::Handshake(NEWEST_HANDSHAKE)),
            Err(Failed::Transport(
                TransportError::Unsuitable(_) | TransportError::Refused { .. },
            )) => Ok(Verdict::Handshake(NEWEST_HANDSHAKE)),
            Err(Failed::Transport(TransportError::Lost(_))) => Err(Disagreement::DiedOfProbe),
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn take_discovered(&self, result: &OwnedRaw) -> Result<(), Disagreement> {
        let members: Map<String, Value> = result.as_raw().decode().map_err(|error| {
            let what = format!("malformed result of server/discover: {error}");
            Disagreement::Failed(Error::Protocol(what))
        })?;
        let info = members
            .get("_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"))
            .cloned()
            .unwrap_or_default();
        self.settle(Revision::V2026_07_28, &members, info);
        Ok(())
    }

    async fn initialize(&self, revision: Revision) -> Result<(), Disagreement> {
        let reply = self.ask_initialize(revision)?.reply().await;
        self.settle_handshake(revision, reply).await
    }

    /// Handles the response to `initialize`. If the server rejects the revision and lists others,
    /// the newest one known here is tried once (C-04).
    async fn settle_handshake(&self, asked: Revision, reply: Reply) -> Result<(), Disagreement> {
        let other = match (&reply, self.shared.options.speak) {
            (Err(Failed::Server(error)), Speak::Any) => {
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

    fn ask_initialize(&self, revision: Revision) -> Result<Exchange, Disagreement> {
        let mut params = json!({
            "protocolVersion": revision.name(),
            "capabilities": declare(self.shared.capabilities(), revision),
            "clientInfo": self.shared.options.client.for_revision(revision),
        });
        if let Some(transport) = self.link.transport() {
            for (name, value) in transport.introduction() {
                params[name] = value;
            }
        }
        let asked = self.link.request(method::INITIALIZE.into(), &params, &Beside::default());
        asked.map_err(|error| self.unsent(error)).map(quiet)
    }

    fn take_initialized(&self, reply: Reply) -> Result<(), Disagreement> {
        let result = reply.map_err(|failed| self.failed(failed))?;
        let members: Map<String, Value> = result.as_raw().decode().map_err(|error| {
            let what = format!("malformed result of initialize: {error}");
            Disagreement::Failed(Error::Protocol(what))
        })?;
        let named = members.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let known = Revision::from_name(named).filter(|revision| !revision.is_stateless());
        let Some(revision) = known else {
            return Err(Disagreement::Failed(no_common(&[named.to_owned()])));
        };
        if let Speak::Only(wanted) = self.shared.options.speak
            && wanted != revision
        {
            return Err(Disagreement::Failed(not_spoken(wanted, named)));
        }
        let info = members.get("serverInfo").cloned().unwrap_or_default();
        self.settle(revision, &members, info);
        self.link.notify(method::INITIALIZED.into(), &json!({}));
        Ok(())
    }

    fn settle(&self, revision: Revision, members: &Map<String, Value>, info: Value) {
        let text = |name: &str| info.get(name).and_then(Value::as_str).map(str::to_owned);
        let implementation = Implementation {
            name: text("name").unwrap_or_else(|| "unnamed server".to_owned()),
            version: text("version").unwrap_or_default(),
            title: text("title"),
            description: text("description"),
        };
        let capabilities = members.get("capabilities").cloned().unwrap_or_default();
        let info = ServerInfo {
            revision,
            implementation,
            capabilities: serde_json::from_value(capabilities).unwrap_or_default(),
            instructions: members.get("instructions").and_then(Value::as_str).map(str::to_owned),
        };
        self.link.agree(info, self.own_meta(revision));
    }

    /// The `_meta` members of every stateless request, without braces.
    fn own_meta(&self, revision: Revision) -> String {
        let capabilities = declare(self.shared.capabilities(), revision);
        let client = self.shared.options.client.for_revision(revision);
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision.name(),
            "io.modelcontextprotocol/clientInfo": client,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let text = meta.to_string();
        text[1..text.len() - 1].to_owned()
    }

    fn wants_handshake(&self) -> bool {
        self.link.transport().is_some_and(|transport| transport.wants_handshake())
    }

    fn unsent(&self, error: RequestError) -> Disagreement {
        match error {
            RequestError::Unsent(source) => self.failed(Failed::Transport(source)),
            RequestError::Usage(what) => Disagreement::Failed(Error::Usage(what)),
        }
    }

    fn failed(&self, failed: Failed) -> Disagreement {
        let source = match failed {
            Failed::Server(error) => return Disagreement::Failed(error.into()),
            Failed::Transport(source @ TransportError::Unsuitable(_)) => {
                return Disagreement::Unsuitable(source);
            }
            Failed::Transport(TransportError::Garbage(what)) => {
                return Disagreement::Failed(Error::Protocol(what));
            }
            Failed::Transport(source) => source,
        };
        Disagreement::Failed(Error::Connect { target: self.shared.target.clone(), source })
    }
}

enum Verdict {
    Modern(OwnedRaw),
    Handshake(Revision),
    Again,
}

fn quiet(mut exchange: Exchange) -> Exchange {
    exchange.is_quiet = true;
    exchange
}

/// Returns whether only 2026-07-28 defines this error code.
fn is_modern(error: &ServerError) -> bool {
    matches!(error.code, -32022..=-32020)
}

fn listed(error: &ServerError) -> Vec<String> {
    let list = error.data.get("supported").or_else(|| error.data.get("supportedVersions"));
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).take(MOST_VERSIONS).map(str::to_owned).collect()
}

fn names(result: Raw<'_>, member: &str) -> Vec<String> {
    let found = result.members([member]).ok().and_then(|[list]| list);
    let list: Vec<Value> = found.and_then(|list| list.decode().ok()).unwrap_or_default();
    list.iter().filter_map(Value::as_str).take(MOST_VERSIONS).map(str::to_owned).collect()
}

/// The newest of these revisions that is known here.
fn choose(names: &[String]) -> Option<Revision> {
    names.iter().filter_map(|name| Revision::from_name(name)).max()
}

fn no_common(names: &[String]) -> Error {
    let theirs: Vec<_> = names.iter().map(|name| crate::neutral::shorten(name, 32)).collect();
    let ours: Vec<_> = Revision::ALL.iter().map(|revision| revision.name()).collect();
    Error::Protocol(format!(
        "no common protocol revision: the server supports {}, this client {}",
        theirs.join(", "),
        ours.join(", ")
    ))
}

/// The error for a server that does not support the required revision.
fn not_spoken(wanted: Revision, theirs: &str) -> Error {
    Error::Revision { wanted, offered: crate::neutral::shorten(theirs, 200) }
}

const NEWEST_HANDSHAKE: Revision = Revision::V2025_11_25;

/// Maximum number of versions read of a server's list.
const MOST_VERSIONS: usize = 64;
