//! Approval policies: what a server may do without asking, and the models it may use.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::client::approval::models::{Backend, Model, Models};
use mcp_flow::client::approval::{Policies, Policy, PolicyHost, PolicyTable};
use mcp_flow::client::{ChatModel, CommandModel, HttpOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::client::user::TerminalUser;
use crate::exit::{Exit, Failure};

/// Approval policies for one server, or for all. Missing ones have their default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ApprovalPolicies {
    /// Tool calls. Default: `allow`, since typing the command is the approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<PolicyChoice>,
    /// Sampling requests of a server. Default: `ask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<PolicyChoice>,
    /// Answers of the model, before the server gets them. Default: as `sampling`.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<PolicyChoice>,
    /// Questions of a server to the user. Default: `ask`.
    #[serde(skip_serializing_if = "Option::is_none")]
    questions: Option<PolicyChoice>,
}

impl ApprovalPolicies {
    /// Fills missing policies from others.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            calls: self.calls.or(others.calls),
            sampling: self.sampling.or(others.sampling),
            answers: self.answers.or(others.answers),
            questions: self.questions.or(others.questions),
        }
    }

    fn policies(&self) -> Policies {
        let asked =
            |choice: Option<PolicyChoice>| PolicyTable::new(choice.map_or(Policy::Ask, Into::into));
        Policies {
            calls: PolicyTable::new(self.calls.map_or(Policy::Allow, Into::into)),
            sampling: asked(self.sampling),
            // A request that needs no approval needs none for its answer either.
            answers: asked(self.answers.or(self.sampling)),
            questions: asked(self.questions),
        }
    }
}

/// Policy, as an option and in a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PolicyChoice {
    /// Show it and ask each time
    Ask,
    /// Allow without asking
    Allow,
    /// Always deny
    Deny,
}

impl From<PolicyChoice> for Policy {
    fn from(choice: PolicyChoice) -> Self {
        match choice {
            PolicyChoice::Ask => Self::Ask,
            PolicyChoice::Allow => Self::Allow,
            PolicyChoice::Deny => Self::Deny,
        }
    }
}

/// Approval policies on the command line.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct PolicyOptions {
    /// Policy for tool calls [default: allow]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = "Approval")]
    calls: Option<PolicyChoice>,

    /// Policy for sampling requests, which use the models of the configuration file [default: ask]
    #[arg(long, value_enum, value_name = "POLICY", help_heading = "Approval")]
    sampling: Option<PolicyChoice>,
}

impl PolicyOptions {
    pub(crate) fn or(self, others: &ApprovalPolicies) -> ApprovalPolicies {
        let chosen = ApprovalPolicies {
            calls: self.calls,
            sampling: self.sampling,
            ..ApprovalPolicies::default()
        };
        chosen.or(others)
    }
}

/// Model that servers may use for sampling: a command, or a chat completions endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelEntry {
    /// Program that reads a `sampling/createMessage` request and writes the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// Arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    /// Or URL of a chat completions endpoint, for example
    /// `https://models.example/v1/chat/completions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Model name to send to the endpoint. Default: the name of the entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Environment variable with the API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_env: Option<String>,
    /// Cost rating from 0 (expensive) to 1 (cheap). Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    cheap: Option<f64>,
    /// Speed rating from 0 (slow) to 1 (fast). Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    fast: Option<f64>,
    /// Intelligence rating from 0 to 1. Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    clever: Option<f64>,
    /// Timeout for an answer, in seconds. Default: 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_limit: Option<u64>,
}

impl ModelEntry {
    fn model(&self, name: &str) -> Result<Model, String> {
        let named = self.model.as_deref().unwrap_or(name);
        let model = match (&self.command, &self.url) {
            (Some(command), None) => {
                Model::new(name, CommandModel::new(named, command).arguments(&self.args))
            }
            (None, Some(url)) => Model::new(name, self.endpoint(url, named)?),
            _ => return Err("set either `command` or `url`".to_owned()),
        };
        let middling = |given: Option<f64>| given.unwrap_or(0.5);
        let model = model.ratings(middling(self.cheap), middling(self.fast), middling(self.clever));
        Ok(match self.time_limit {
            Some(seconds) => model.timeout(Duration::from_secs(seconds)),
            None => model,
        })
    }

    fn endpoint(&self, url: &str, named: &str) -> Result<impl Backend + use<>, String> {
        let mut options = HttpOptions::new();
        if let Some(variable) = &self.key_env {
            let key = std::env::var(variable);
            let key = key.map_err(|_| format!("the environment variable {variable} is not set"))?;
            options = options.bearer(&key).map_err(|problem| problem.to_string())?;
        }
        ChatModel::new(url, named, &options).map_err(|problem| problem.to_string())
    }
}

/// Creates the host that applies the approval policies.
pub(crate) fn guard(
    user: TerminalUser,
    approvals: &ApprovalPolicies,
    models: &BTreeMap<String, ModelEntry>,
) -> anyhow::Result<PolicyHost> {
    let guard = PolicyHost::new(user).policies(approvals.policies());
    if models.is_empty() {
        return Ok(guard);
    }
    let made: Result<Vec<_>, Failure> = models
        .iter()
        .map(|(name, entry)| {
            entry
                .model(name)
                .map_err(|problem| Failure::new(Exit::Usage, format!("model {name:?}: {problem}")))
        })
        .collect();
    Ok(guard.models(Models::new(made?)))
}

#[cfg(test)]
mod tests {
    use super::{ApprovalPolicies, ModelEntry, PolicyChoice};
    use mcp_flow::client::approval::Policy;

    /// C-33: the policies of one server override those of all.
    #[test]
    fn policies_of_one_server_override_the_general_ones() {
        let all = ApprovalPolicies {
            calls: Some(PolicyChoice::Ask),
            sampling: Some(PolicyChoice::Deny),
            ..ApprovalPolicies::default()
        };
        let one =
            ApprovalPolicies { calls: Some(PolicyChoice::Deny), ..ApprovalPolicies::default() }
                .or(&all);
        let policies = one.policies();
        assert_eq!(policies.calls.for_server("any"), Policy::Deny);
        assert_eq!(policies.sampling.for_server("any"), Policy::Deny);
        assert_eq!(policies.questions.for_server("any"), Policy::Ask);
        assert_eq!(ApprovalPolicies::default().policies().calls.for_server("any"), Policy::Allow);
    }

    #[test]
    fn a_model_is_a_command_or_an_endpoint() {
        let entry = |text: &str| toml::from_str::<ModelEntry>(text).unwrap().model("m");
        assert!(entry("command = \"true\"").is_ok());
        assert!(entry("url = \"https://a.example/v1/chat\"\ncheap = 0.9").is_ok());
        for (wrong, problem) in [
            ("", "either"),
            ("command = \"true\"\nurl = \"https://a.example\"", "either"),
            ("url = \"ftp://a.example\"", "http"),
            ("url = \"https://a.example\"\nkey_env = \"NOT_SET_ANYWHERE\"", "NOT_SET_ANYWHERE"),
        ] {
            let error = entry(wrong).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
