//! What a server may do here without asking, what is asked, and which models it may use.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::client::guard::models::{Backend, Model, Models};
use mcp_flow::client::guard::{Guard, Policies, Policy, Rules};
use mcp_flow::client::{ChatModel, CommandModel, HttpOptions};
use serde::Deserialize;

use crate::exit::{Exit, Failure};
use crate::host::Person;

/// The policies for one server, or for all. What is not given is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Approvals {
    /// Calls of tools. A call that was typed is its own approval, so they are allowed as a rule.
    calls: Option<Policy>,
    /// What a server wants to ask a model.
    sampling: Option<Policy>,
    /// What the model answered, before the server sees it.
    answers: Option<Policy>,
    /// What a server wants to ask the person.
    questions: Option<Policy>,
}

impl Approvals {
    /// These, and for what they do not say, the others.
    pub(crate) fn or(self, others: &Self) -> Self {
        Self {
            calls: self.calls.or(others.calls),
            sampling: self.sampling.or(others.sampling),
            answers: self.answers.or(others.answers),
            questions: self.questions.or(others.questions),
        }
    }

    fn policies(&self) -> Policies {
        let asked = |policy: Option<Policy>| Rules::new(policy.unwrap_or(Policy::Ask));
        Policies {
            calls: Rules::new(self.calls.unwrap_or(Policy::Allow)),
            sampling: asked(self.sampling),
            // Whoever lets a server ask a model without a look lets it have the answer too.
            answers: asked(self.answers.or(self.sampling)),
            questions: asked(self.questions),
        }
    }
}

/// A policy on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Choice {
    /// Show it and ask, each time
    Ask,
    /// Go ahead
    Allow,
    /// Never
    Deny,
}

impl From<Choice> for Policy {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Ask => Self::Ask,
            Choice::Allow => Self::Allow,
            Choice::Deny => Self::Deny,
        }
    }
}

/// The policies on the command line.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Chosen {
    /// Whether tools are called: at once, which is usual, or after asking
    #[arg(long, value_enum, value_name = "POLICY")]
    calls: Option<Choice>,

    /// Whether the server may ask a model of the configuration file [default: ask]
    #[arg(long, value_enum, value_name = "POLICY")]
    sampling: Option<Choice>,
}

impl Chosen {
    pub(crate) fn or(self, others: &Approvals) -> Approvals {
        let chosen = Approvals {
            calls: self.calls.map(Into::into),
            sampling: self.sampling.map(Into::into),
            ..Approvals::default()
        };
        chosen.or(others)
    }
}

/// A model as the configuration file has it: a command, or a chat endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelEntry {
    command: Option<String>,
    args: Vec<String>,
    url: Option<String>,
    /// What the endpoint knows the model by; the name of the entry unless given.
    model: Option<String>,
    /// The variable of the environment that holds the key.
    key_env: Option<String>,
    cheap: Option<f64>,
    fast: Option<f64>,
    clever: Option<f64>,
    /// How many seconds an answer may take.
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
            _ => return Err("it needs either `command` or `url`".to_owned()),
        };
        let middling = |given: Option<f64>| given.unwrap_or(0.5);
        let model = model.good_at(middling(self.cheap), middling(self.fast), middling(self.clever));
        Ok(match self.time_limit {
            Some(seconds) => model.limit(Duration::from_secs(seconds)),
            None => model,
        })
    }

    fn endpoint(&self, url: &str, named: &str) -> Result<impl Backend + use<>, String> {
        let mut options = HttpOptions::new();
        if let Some(variable) = &self.key_env {
            let key = std::env::var(variable);
            let key = key.map_err(|_| format!("the environment has no {variable}; set it"))?;
            options = options.bearer(&key).map_err(|problem| problem.to_string())?;
        }
        ChatModel::new(url, named, &options).map_err(|problem| problem.to_string())
    }
}

/// Stands between a server and the person at the terminal.
pub(crate) fn guard(
    person: Person,
    approvals: &Approvals,
    models: &BTreeMap<String, ModelEntry>,
) -> anyhow::Result<Guard> {
    let guard = Guard::new(person).policies(approvals.policies());
    if models.is_empty() {
        return Ok(guard);
    }
    let made: Result<Vec<_>, Failure> = models
        .iter()
        .map(|(name, entry)| {
            entry.model(name).map_err(|problem| {
                Failure::new(Exit::Usage, format!("the model {name:?}: {problem}"))
            })
        })
        .collect();
    Ok(guard.models(Models::new(made?)))
}

#[cfg(test)]
mod tests {
    use super::{Approvals, ModelEntry};
    use mcp_flow::client::guard::Policy;

    /// C-33: what is said for one server goes before what is said for all.
    #[test]
    fn the_nearest_policy_counts() {
        let all = Approvals {
            calls: Some(Policy::Ask),
            sampling: Some(Policy::Deny),
            ..Approvals::default()
        };
        let one = Approvals { calls: Some(Policy::Deny), ..Approvals::default() }.or(&all);
        let policies = one.policies();
        assert_eq!(policies.calls.for_server("any"), Policy::Deny);
        assert_eq!(policies.sampling.for_server("any"), Policy::Deny);
        assert_eq!(policies.questions.for_server("any"), Policy::Ask);
        assert_eq!(Approvals::default().policies().calls.for_server("any"), Policy::Allow);
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
            let told = entry(wrong).unwrap_err();
            assert!(told.contains(problem), "{told}");
        }
    }
}
