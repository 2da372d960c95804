//! Approval policies by server.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Policy for a kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Ask for approval each time.
    #[default]
    Ask,
    /// Allow without asking.
    Allow,
    /// Deny without asking.
    Deny,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        match text {
            "ask" => Ok(Self::Ask),
            "allow" => Ok(Self::Allow),
            "deny" => Ok(Self::Deny),
            _ => Err(UnknownPolicy),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ask => "ask",
            Self::Allow => "allow",
            Self::Deny => "deny",
        })
    }
}

/// Error for a text that names no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a policy is one of ask, allow, deny")]
pub struct UnknownPolicy;

/// Default policy, with exceptions by the server's target: the URL or command the user gave. The
/// name that a server gives itself is ignored.
///
/// ```
/// use mcp_flow_client::approval::{Policy, PolicyTable};
///
/// let rules = PolicyTable::new(Policy::Ask).server("https://a.example/mcp", Policy::Allow);
/// assert_eq!(rules.for_server("https://a.example/mcp"), Policy::Allow);
/// assert_eq!(rules.for_server("https://a.example.evil/mcp"), Policy::Ask);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyTable {
    default: Policy,
    servers: BTreeMap<String, Policy>,
}

impl PolicyTable {
    /// Creates a table with the same policy for all servers.
    pub fn new(default: Policy) -> Self {
        Self { default, servers: BTreeMap::new() }
    }

    /// Sets the policy for one server.
    #[must_use]
    pub fn server(mut self, target: impl Into<String>, policy: Policy) -> Self {
        self.servers.insert(target.into(), policy);
        self
    }

    /// The policy that applies to a server.
    pub fn for_server(&self, target: &str) -> Policy {
        self.servers.get(target).copied().unwrap_or(self.default)
    }

    /// Returns whether the policy for a server is deny.
    pub(super) fn denies(&self, target: &str) -> bool {
        self.for_server(target) == Policy::Deny
    }
}

/// Policies for tool calls, sampling requests, sampling answers and elicitations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policies {
    /// Tool calls.
    pub calls: PolicyTable,
    /// Sampling requests.
    pub sampling: PolicyTable,
    /// Answers of the model, before they are sent to the server.
    pub answers: PolicyTable,
    /// Elicitations.
    pub questions: PolicyTable,
}
