//! Servers behind this one: those of `--gateway FILE`, and those with `gateway = true` in the
//! configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow::client::transport::Connector;
use mcp_flow::client::{HttpOptions, Trust};
use mcp_flow_gateway::{
    ApprovalRules, Gateway, InvalidUpstreams, Isolation, Pins, ToolPatterns, UpstreamSettings,
};

use crate::client::connect::program;
use crate::client::logins::LoginOptions;
use crate::client::target::Target;
use crate::configuration::{AuthStyle, File, GatewayFile, IsolationStyle, ServerEntry};
use crate::exit::{Exit, Failure};
use crate::server::offer::OfferOptions;
use crate::server::store::{DEFAULT, StoreUrl};

/// Opens the gateway; `None` if no server is to be served, unless some may be added by a reload. Pins
/// are kept next to the store.
pub(crate) fn open(
    offer: &OfferOptions,
    file: &File,
    is_reloaded: bool,
) -> anyhow::Result<Option<Gateway>> {
    let path = offer.gateway.as_deref();
    let upstreams = settings(path, file)?;
    if upstreams.is_empty() && path.is_none() && !is_reloaded {
        return Ok(None);
    }
    let pins = match pins_path(offer.store()) {
        Some(path) => Pins::open(path).context("cannot read the pins of the gateway")?,
        None => Pins::in_memory(),
    };
    let gateway = Gateway::with_pins(upstreams, pins);
    let gateway = gateway.map_err(|invalid| usage(&invalid.to_string()))?;
    gateway.search_above(file.gateway.search_above);
    Ok(Some(gateway))
}

/// The file of pins next to a store; `None` for a store in memory.
pub(crate) fn pins_path(store: Option<&StoreUrl>) -> Option<PathBuf> {
    let path = match store {
        Some(StoreUrl::Memory) => return None,
        Some(StoreUrl::Redb(path) | StoreUrl::Sqlite(path)) => path,
        // Pins are of this machine, also where sessions are not.
        Some(StoreUrl::Postgres(_)) | None => Path::new(DEFAULT),
    };
    Some(path.with_extension("pins.json"))
}

/// Settings of all servers that are served: those of the gateway's file first.
pub(crate) fn settings(path: Option<&Path>, file: &File) -> anyhow::Result<Vec<UpstreamSettings>> {
    let mut all = Vec::new();
    if let Some(path) = path {
        let listed = GatewayFile::read(path)?;
        for (name, entry) in &listed.servers {
            all.push(
                upstream(name, entry)
                    .map_err(|problem| listed.problems(path, &[(name.clone(), problem)]))?,
            );
        }
        if let Err(InvalidUpstreams { problems }) = Gateway::check(&all) {
            return Err(listed.problems(path, &problems));
        }
    }
    for (name, entry) in file.servers.iter().filter(|(_, entry)| entry.gateway) {
        let problem = |problem: String| usage(&format!("[servers.{name}]: {problem}"));
        all.push(upstream(name, entry).map_err(problem)?);
    }
    if let Err(invalid) = Gateway::check(&all) {
        return Err(usage(&invalid.to_string()));
    }
    Ok(all)
}

fn upstream(name: &str, entry: &ServerEntry) -> Result<UpstreamSettings, String> {
    let target = entry.target(|variable| std::env::var(variable).ok())?;
    let mut settings = UpstreamSettings::new(name, connector(&target, entry.auth)?);
    // The values of environment variables may have changed as well.
    settings.fingerprint = format!("{target:?} {entry:?}");
    settings.isolation = match entry.isolation {
        IsolationStyle::Shared => Isolation::Shared,
        IsolationStyle::Session => Isolation::Session,
        IsolationStyle::Principal => Isolation::Principal,
    };
    settings.instances = entry.instances.clamp(1, MAX_INSTANCES);
    settings.idle_timeout = Duration::from_secs(entry.idle_seconds);
    settings.call_timeout = Duration::from_secs(entry.timeout_seconds.max(1));
    settings.connect_timeout = Duration::from_secs(entry.connect_seconds.max(1));
    settings.answer_timeout = Duration::from_secs(entry.answer_seconds.max(1));
    settings.result_limit = entry.result_bytes.max(SMALLEST_RESULT);
    settings.expose = ToolPatterns::new(&entry.expose);
    settings.rename = entry.rename.clone();
    settings.approve = ApprovalRules::new(entry.approve.as_slice());
    settings.trust_annotations = entry.trust_annotations;
    settings.rerun = ToolPatterns::new(&entry.rerun);
    settings.pins = entry.pins;
    Ok(settings)
}

/// Connector of a server. Only headers of the configuration are sent: never those of a caller.
fn connector(target: &Target, auth: AuthStyle) -> Result<Arc<dyn Connector>, String> {
    match target {
        Target::Command(_) if auth != AuthStyle::None => {
            Err("`auth` is for servers with a `url`".to_owned())
        }
        Target::Command(spawn) => Ok(Arc::new(program(spawn))),
        Target::Address(address) => {
            let mut options = HttpOptions::new();
            for (name, value) in &address.headers {
                options = options.header(name, value).map_err(|bad| bad.to_string())?;
            }
            if auth == AuthStyle::Shared {
                let account = LoginOptions::from_environment().account(
                    &address.url,
                    address.oauth.as_deref(),
                    Trust::default(),
                );
                let account = account.map_err(|problem| problem.to_string())?;
                let account = account.ok_or("there is no file of logins; set MCP_FLOW_LOGINS")?;
                options = options.authorizer(Arc::new(account));
            }
            mcp_flow::client::connector(&address.url, &options).map_err(|bad| bad.to_string())
        }
    }
}

fn usage(problem: &str) -> anyhow::Error {
    Failure::new(Exit::Usage, problem).into()
}

/// Least limit on a result, so that lists fit.
const SMALLEST_RESULT: usize = 64 << 10;

/// Limit on the processes of one server.
const MAX_INSTANCES: usize = 64;
