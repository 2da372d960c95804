//! Servers behind this one: those of `--gateway FILE`, and those with `gateway = true` in the
//! configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow::client::transport::Connector;
use mcp_flow::client::{HttpOptions, RevisionPolicy, Trust};
use mcp_flow_gateway::{ApprovalRules, Gateway, Isolation, Pins, ToolPatterns, UpstreamSettings};

use crate::client::connect::{program, revision};
use crate::client::logins::LoginOptions;
use crate::client::target::Target;
use crate::configuration::{
    AuthStyle, EntryProblem, File, GatewayFile, IsolationStyle, ServerEntry,
};
use crate::exit::{Exit, Failure};
use crate::server::offer::OfferOptions;
use crate::server::store::{DEFAULT, StoreUrl};
use crate::server::user_logins::UserLogins;

/// Opens the gateway; `None` if no server is to be served, unless some may be added by a reload. Pins
/// are kept next to the store.
pub(crate) fn open(
    offer: &OfferOptions,
    file: &File,
    is_reloaded: bool,
    logins: &Arc<UserLogins>,
) -> anyhow::Result<Option<Gateway>> {
    let path = offer.gateway.as_deref();
    let upstreams = settings(path, file, logins)?;
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
pub(crate) fn settings(
    path: Option<&Path>,
    file: &File,
    logins: &Arc<UserLogins>,
) -> anyhow::Result<Vec<UpstreamSettings>> {
    let mut all = Vec::new();
    let listed = path.map(GatewayFile::read).transpose()?;
    let listed = listed.map(|listed| add_listed(&mut all, listed, logins)).transpose()?;
    let mut problems = Vec::new();
    let mut add = |name: &str, text: &str| problems.push(format!("[servers.{name}]: {text}"));
    for (name, entry) in file.servers.iter().filter(|(_, entry)| entry.gateway) {
        match upstream(name, entry, logins, &|variable| std::env::var(variable).ok()) {
            Ok(settings) => all.push(settings),
            Err(own) => own.iter().for_each(|problem| add(name, &problem.text)),
        }
    }
    if let Err(invalid) = Gateway::check_names(all.iter().map(|known| known.name.as_str())) {
        for (name, text) in invalid.problems {
            let place = listed.as_ref().and_then(|listed| listed.place(&name));
            let place = place.map_or_else(String::new, |place| format!(" ({place})"));
            add(&name, &format!("{text}{place}"));
        }
    }
    if problems.is_empty() { Ok(all) } else { Err(usage(&problems.join("\n"))) }
}

/// Adds the servers of a gateway's file, which has no problems then.
fn add_listed(
    all: &mut Vec<UpstreamSettings>,
    mut listed: GatewayFile,
    logins: &Arc<UserLogins>,
) -> anyhow::Result<GatewayFile> {
    let mut problems = Vec::new();
    for (name, entry) in &listed.servers {
        match upstream(name, entry, logins, &|variable| listed.variable(variable)) {
            Ok(settings) => all.push(settings),
            Err(own) => problems.extend(own.into_iter().map(|own| (name.clone(), own))),
        }
    }
    if let Err(invalid) = Gateway::check_names(listed.names()) {
        let named = invalid.problems.into_iter();
        problems.extend(named.map(|(name, text)| (name, EntryProblem::new(&[], text))));
    }
    for (name, problem) in &problems {
        listed.add_problem(name, problem);
    }
    listed.check()?;
    Ok(listed)
}

fn upstream(
    name: &str,
    entry: &ServerEntry,
    logins: &Arc<UserLogins>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<UpstreamSettings, Vec<EntryProblem>> {
    let mut problems = check(entry);
    let target = entry.target(variable);
    let connected = match &target {
        Ok(target) => connector(target, entry.auth).map_err(|problems| {
            problems.into_iter().map(|text| EntryProblem::new(&[], text)).collect()
        }),
        Err(problems) => Err(problems.clone()),
    };
    let (target, (connector, options)) = match (target, connected) {
        (Ok(target), Ok(connected)) if problems.is_empty() => (target, connected),
        (_, connected) => {
            problems.extend(connected.err().unwrap_or_default());
            return Err(problems);
        }
    };
    let mut settings = UpstreamSettings::new(name, connector.clone());
    if let (AuthStyle::User, Target::Address(address)) = (entry.auth, &target) {
        let accounts = logins.accounts(name, address, options, connector);
        let accounts = accounts
            .map_err(|problem| vec![EntryProblem::new(&["auth"], format!("{problem:#}"))])?;
        settings.accounts = Some(Arc::new(accounts));
    }
    // The values of environment variables may have changed as well.
    settings.fingerprint = format!("{target:?} {entry:?}");
    if let Some(Ok(revision)) = entry.revision.as_deref().map(revision) {
        settings.revision = RevisionPolicy::Only(revision);
    }
    settings.isolation = match entry.isolation {
        IsolationStyle::Shared => Isolation::Shared,
        IsolationStyle::Session => Isolation::Session,
        IsolationStyle::Principal => Isolation::Principal,
    };
    settings.instances = entry.instances;
    settings.idle_timeout = Duration::from_secs(entry.idle_seconds);
    settings.call_timeout = Duration::from_secs(entry.timeout_seconds.max(1));
    settings.connect_timeout = Duration::from_secs(entry.connect_seconds.max(1));
    settings.answer_timeout = Duration::from_secs(entry.answer_seconds.max(1));
    settings.result_limit = entry.result_bytes.max(SMALLEST_RESULT);
    settings.spool_limit = entry.spool_bytes;
    settings.expose = ToolPatterns::new(&entry.expose);
    settings.rename = entry.rename.clone();
    settings.approve = ApprovalRules::new(entry.approve.as_slice());
    settings.trust_annotations = entry.trust_annotations;
    settings.rerun = ToolPatterns::new(&entry.rerun);
    settings.pins = entry.pins;
    Ok(settings)
}

/// Problems with what is served of a server.
fn check(entry: &ServerEntry) -> Vec<EntryProblem> {
    let mut problems = Vec::new();
    if !(1..=MAX_INSTANCES).contains(&entry.instances) {
        let given = entry.instances;
        let what = format!("`instances` must be from 1 to {MAX_INSTANCES}, not {given}");
        problems.push(EntryProblem::new(&["instances"], what));
    }
    if let Some(Err(problem)) = entry.revision.as_deref().map(revision) {
        problems.push(EntryProblem::new(&["revision"], format!("`revision`: {problem}")));
    }
    let mut used = BTreeMap::new();
    for (tool, new) in &entry.rename {
        let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        if new.is_empty() || !new.chars().all(is_valid) {
            let what = format!(
                "`rename.{tool}`: {new:?} is not a name of a tool; use letters, digits, `_`, `-` and `.`"
            );
            problems.push(EntryProblem::new(&["rename", tool], what));
        }
        if let Some(other) = used.insert(new, tool) {
            let what = format!("`rename`: {other} and {tool} are both renamed to {new:?}");
            problems.push(EntryProblem::new(&["rename", tool], what));
        }
    }
    problems
}

/// Connector of a server, with the options it was made with. Only headers of the configuration are
/// sent: never those of a caller.
fn connector(
    target: &Target,
    auth: AuthStyle,
) -> Result<(Arc<dyn Connector>, HttpOptions), Vec<String>> {
    let address = match target {
        Target::Command(_) if auth != AuthStyle::None => {
            return Err(vec!["`auth` is for servers with a `url`".to_owned()]);
        }
        Target::Command(spawn) => return Ok((Arc::new(program(spawn)), HttpOptions::new())),
        Target::Address(address) => address,
    };
    let (mut options, mut problems) = (HttpOptions::new(), Vec::new());
    for (name, value) in &address.headers {
        match options.clone().header(name, value) {
            Ok(with_header) => options = with_header,
            Err(bad) => problems.push(bad.to_string()),
        }
    }
    if auth == AuthStyle::Shared {
        let logins = LoginOptions::from_environment();
        let account = logins.account(&address.url, address.oauth.as_deref(), Trust::default());
        match account {
            Ok(Some(account)) => options = options.authorizer(Arc::new(account)),
            Ok(None) => {
                problems.push("there is no file of logins; set MCP_FLOW_LOGINS".to_owned());
            }
            Err(problem) => problems.push(problem.to_string()),
        }
    }
    match mcp_flow::client::connector(&address.url, &options) {
        Ok(connector) if problems.is_empty() => Ok((connector, options)),
        Ok(_) => Err(problems),
        Err(bad) => Err([problems, vec![bad.to_string()]].concat()),
    }
}

fn usage(problem: &str) -> anyhow::Error {
    Failure::new(Exit::Usage, problem).into()
}

/// Least limit on a result, so that lists fit.
const SMALLEST_RESULT: usize = 64 << 10;

/// Limit on the processes of one server.
const MAX_INSTANCES: usize = 64;
