//! What may happen, by server.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Only what a person allows each time.
    #[default]
    Ask,
    /// Anything.
    Allow,
    /// Nothing.
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

/// What is no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a policy is one of ask, allow, deny")]
pub struct UnknownPolicy;

/// A policy for all servers, and others for some of them, by how the user reaches them: a URL, a
/// command. What a server calls itself counts for nothing here.
///
/// ```
/// use mcp_flow_client::guard::{Policy, Rules};
///
/// let rules = Rules::new(Policy::Ask).server("https://a.example/mcp", Policy::Allow);
/// assert_eq!(rules.for_server("https://a.example/mcp"), Policy::Allow);
/// assert_eq!(rules.for_server("https://a.example.evil/mcp"), Policy::Ask);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rules {
    default: Policy,
    servers: BTreeMap<String, Policy>,
}

impl Rules {
    /// The same for all servers.
    pub fn new(default: Policy) -> Self {
        Self { default, servers: BTreeMap::new() }
    }

    /// Another one for this server.
    #[must_use]
    pub fn server(mut self, target: impl Into<String>, policy: Policy) -> Self {
        self.servers.insert(target.into(), policy);
        self
    }

    /// What counts for a server.
    pub fn for_server(&self, target: &str) -> Policy {
        self.servers.get(target).copied().unwrap_or(self.default)
    }

    /// Whether it is forbidden in so many words.
    pub(super) fn denies(&self, target: &str) -> bool {
        self.for_server(target) == Policy::Deny
    }
}

/// What may happen: calls of tools, questions to a model, its answers, questions to the person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policies {
    /// Calls of tools.
    pub calls: Rules,
    /// What a server wants to ask a model.
    pub sampling: Rules,
    /// What the model answered, before the server sees it.
    pub answers: Rules,
    /// What a server wants to ask the person.
    pub questions: Rules,
}
