//! Settings of one upstream.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_flow_client::transport::Connector;
use mcp_flow_client::{Backoff, RevisionPolicy};

use crate::accounts::UserAccounts;
use crate::patterns::{ApprovalRules, ToolPatterns};

/// Settings of one upstream: its name, how to connect to it, and its limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct UpstreamSettings {
    /// Name, which prefixes its tools and prompts.
    pub name: String,
    /// Prefixes names. Defaults to true; without a prefix it has to be the only upstream.
    pub is_prefixed: bool,
    /// Opens connections; each one of a command is a process of its own.
    pub connector: Arc<dyn Connector>,
    /// Accounts of its users, if each principal has its own: connections are then per principal, and
    /// `connector` is not used. Defaults to none.
    pub accounts: Option<Arc<dyn UserAccounts>>,
    /// Identifies the configuration: an upstream whose text has changed is replaced on reload.
    pub fingerprint: String,
    /// Protocol revision to use. Defaults to the newest that the upstream supports.
    pub revision: RevisionPolicy,
    /// Callers that share a connection. Defaults to all.
    pub isolation: Isolation,
    /// Limit on connections for calls of one principal that may be asked at the same time, where the
    /// transport does not tell which call a question belongs to. Defaults to 4.
    pub instances: usize,
    /// Time for connecting and listing. Defaults to 30 seconds.
    pub connect_timeout: Duration,
    /// Time for a response; progress restarts it. Defaults to 5 minutes.
    pub call_timeout: Duration,
    /// Time for answering a question of the upstream while its call waits, and for approving a call.
    /// Defaults to 10 minutes.
    pub answer_timeout: Duration,
    /// Limit on the bytes of one message of the upstream that are kept in memory. Defaults to 16 MiB.
    pub result_limit: usize,
    /// Limit on the bytes of temporary files, for the large texts and bytes of results that are longer
    /// than that, of all calls together. With 0 such results fail. Defaults to 1 GiB.
    pub spool_limit: u64,
    /// Tools that are served. Defaults to all.
    pub expose: ToolPatterns,
    /// Names of tools behind the gateway, by the upstream's names.
    pub rename: BTreeMap<String, String>,
    /// Tools whose calls a person approves. Defaults to none.
    pub approve: ApprovalRules,
    /// True if the upstream's own hints on its tools count. Defaults to false.
    pub trust_annotations: bool,
    /// Tools whose calls are sent again if it is not known whether they took effect. Defaults to none.
    pub rerun: ToolPatterns,
    /// True if changed definitions of tools are quarantined until somebody approves them. Defaults to
    /// true.
    pub pins: bool,
    /// Time without calls and subscriptions after which the connection is closed. Defaults to 5
    /// minutes.
    pub idle_timeout: Duration,
    /// Attempts to connect that a caller waits for. Defaults to one, so that failures show at once.
    pub reconnect: Backoff,
}

/// Callers that share a connection to an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All callers.
    #[default]
    Shared,
    /// The callers of one connection; stateless callers, those of one principal.
    Session,
    /// The callers with one principal.
    Principal,
}

impl UpstreamSettings {
    /// Creates the settings of an upstream with defaults.
    pub fn new(name: impl Into<String>, connector: Arc<dyn Connector>) -> Self {
        Self {
            name: name.into(),
            fingerprint: connector.target().to_owned(),
            connector,
            accounts: None,
            is_prefixed: true,
            revision: RevisionPolicy::Any,
            isolation: Isolation::default(),
            instances: 4,
            connect_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(300),
            idle_timeout: Duration::from_secs(300),
            reconnect: Backoff { attempts: 1, initial_attempts: 1, ..Backoff::default() },
            answer_timeout: Duration::from_secs(600),
            result_limit: 16 << 20,
            spool_limit: 1 << 30,
            expose: ToolPatterns::new(["*"]),
            rename: BTreeMap::new(),
            approve: ApprovalRules::default(),
            trust_annotations: false,
            rerun: ToolPatterns::default(),
            pins: true,
        }
    }

    /// The name of a tool behind the gateway, without prefix.
    pub(crate) fn served_name<'a>(&'a self, tool: &'a str) -> &'a str {
        self.rename.get(tool).map_or(tool, String::as_str)
    }
}

impl fmt::Debug for UpstreamSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("UpstreamSettings")
            .field("name", &self.name)
            .field("target", &self.connector.target())
            .finish_non_exhaustive()
    }
}
