//! What a server may do here without asking, what is asked, and which models it may use.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::ValueEnum;
use mcp_flow::client::guard::models::{Backend, Model, Models};
use mcp_flow::client::guard::{Guard, Policies, Policy, Rules};
use mcp_flow::client::{ChatModel, CommandModel, HttpOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};
use crate::host::Person;

/// The policies for one server, or for all. What is not given is as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Approvals {
    /// Calls of tools. A call that was typed is its own approval, so they are allowed as a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<Choice>,
    /// What a server wants to ask a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling: Option<Choice>,
    /// What the model answered, before the server sees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<Choice>,
    /// What a server wants to ask the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    questions: Option<Choice>,
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
        let asked = |choice: Option<Choice>| Rules::new(choice.map_or(Policy::Ask, Into::into));
        Policies {
            calls: Rules::new(self.calls.map_or(Policy::Allow, Into::into)),
            sampling: asked(self.sampling),
            // Whoever lets a server ask a model without a look lets it have the answer too.
            answers: asked(self.answers.or(self.sampling)),
            questions: asked(self.questions),
        }
    }
}

/// A policy, on the command line and in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
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
        let chosen =
            Approvals { calls: self.calls, sampling: self.sampling, ..Approvals::default() };
        chosen.or(others)
    }
}

/// A model as the configuration file has it: a command, or a chat endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelEntry {
    /// The program that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The arguments of the program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    /// The chat endpoint that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// What the endpoint knows the model by; the name of the entry unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The variable of the environment that holds the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_env: Option<String>,
    /// How cheap it is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cheap: Option<f64>,
    /// How fast it is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    fast: Option<f64>,
    /// How clever it is, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    clever: Option<f64>,
    /// How many seconds an answer may take.
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
    use super::{Approvals, Choice, ModelEntry};
    use mcp_flow::client::guard::Policy;

    /// C-33: what is said for one server goes before what is said for all.
    #[test]
    fn the_nearest_policy_counts() {
        let all = Approvals {
            calls: Some(Choice::Ask),
            sampling: Some(Choice::Deny),
            ..Approvals::default()
        };
        let one = Approvals { calls: Some(Choice::Deny), ..Approvals::default() }.or(&all);
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
