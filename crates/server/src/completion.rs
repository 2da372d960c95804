//! Completion of arguments being typed.
//!
//! Owns the functions that complete, and what they return. Which prompt or template a request means is
//! decided in `methods`.

use std::fmt;
use std::sync::Arc;

use mcp_flow_proto::model::{CompleteResult, CompletionValues, MAX_COMPLETIONS, Meta};
use mcp_flow_proto::text::prefix;
use mcp_flow_proto::{Raw, RpcError};

use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::prompt::texts;
use crate::revision::{add_server_info, result_type};
use crate::tool::arguments::violations_error;

/// Suggested values of an argument, best first.
///
/// Only the first 100 are sent; the rest are counted.
///
/// ```
/// use mcp_flow_server::completion::Completion;
///
/// let all = Completion::from(vec!["python", "pytorch"]);
/// let first_of_many = Completion::from(vec!["python", "pytorch"]).of(20_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    values: Vec<String>,
    total: Option<u64>,
}

impl Completion {
    /// Sets the total number, of which these are the first.
    #[must_use]
    pub fn of(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }

    fn reply(&self, context: &Context) -> Outcome {
        let revision = context.revision();
        let sent = &self.values[..self.values.len().min(MAX_COMPLETIONS)];
        let total = self.total.unwrap_or_default().max(self.values.len() as u64);
        context.reply(&CompleteResult {
            result_type: result_type(revision),
            completion: CompletionValues {
                values: sent,
                total: Some(total),
                has_more: total > sent.len() as u64,
            },
            meta: revision.is_stateless().then(|| {
                let mut meta = Meta::new();
                add_server_info(&mut meta, context.server().info_value().clone());
                meta
            }),
        })
    }
}

impl Context {
    /// Encodes suggestions as the outcome of `completion/complete`.
    pub fn reply_completion(&self, completion: &Completion) -> Outcome {
        completion.reply(self)
    }
}

impl<T: Into<String>> From<Vec<T>> for Completion {
    fn from(values: Vec<T>) -> Self {
        Self { values: values.into_iter().map(Into::into).collect(), total: None }
    }
}

/// The arguments already given, while another is being completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedArguments {
    values: Vec<(String, String)>,
}

impl ResolvedArguments {
    /// Reads the arguments with these names; others are ignored.
    pub(crate) fn read(arguments: Raw<'_>, names: &[&str]) -> Result<Self, RpcError> {
        let texts = texts::read(arguments, names).map_err(|faults| violations_error(&faults))?;
        let settled = names.iter().zip(texts);
        Ok(settled.filter_map(|(name, text)| Some((*name, text?))).collect())
    }

    /// The value of an argument, if given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for ResolvedArguments {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(values: I) -> Self {
        let values = values.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self { values: values.collect() }
    }
}

/// The completions of one argument: a list, or a function.
#[derive(Clone)]
pub(crate) enum Completer {
    List(Arc<[String]>),
    Function(Arc<Function>),
}

type Function = dyn Fn(&Context, &str, &ResolvedArguments) -> Completion + Send + Sync;

impl Completer {
    pub(crate) fn list<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }

    pub(crate) fn function<R: Into<Completion>>(
        function: impl Fn(&Context, &str, &ResolvedArguments) -> R + Send + Sync + 'static,
    ) -> Self {
        Self::Function(Arc::new(move |context, partial, resolved| {
            function(context, partial, resolved).into()
        }))
    }

    /// Completes an argument. A function may do lookups, so it runs on a blocking thread.
    pub(crate) fn reply(
        &self,
        context: &Context,
        partial: &str,
        resolved: ResolvedArguments,
    ) -> Reply {
        match self {
            Self::List(values) => Reply::Ready(matching(values, partial).reply(context)),
            Self::Function(function) => {
                let (function, context) = (function.clone(), context.clone());
                let partial = partial.to_owned();
                Reply::Blocking(Box::new(move || {
                    function(&context, &partial, &resolved).reply(&context)
                }))
            }
        }
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(values) => formatter.debug_tuple("List").field(values).finish(),
            Self::Function(_) => formatter.write_str("Function"),
        }
    }
}

/// The error for an unknown argument.
pub(crate) fn unknown_argument(name: &str, known: &[&str]) -> RpcError {
    // An overlong name is truncated in the error.
    let name = prefix(name, 128);
    let details = match known {
        [] => format!("{name} is not an argument here; there are none"),
        known => format!("{name} is not an argument here; there is {}", known.join(", ")),
    };
    RpcError::invalid_params(details).with("argument", name)
}

/// The reply without suggestions.
pub(crate) fn no_completions(context: &Context) -> Reply {
    Reply::Ready(Completion::default().reply(context))
}

/// The values that begin with the text, then those that contain it, ignoring case.
fn matching(values: &[String], partial: &str) -> Completion {
    let partial = partial.to_lowercase();
    let mut first = Vec::new();
    let mut then = Vec::new();
    for value in values {
        let folded = value.to_lowercase();
        if folded.starts_with(&partial) {
            first.push(value.as_str());
        } else if folded.contains(&partial) {
            then.push(value.as_str());
        }
    }
    first.append(&mut then);
    first.into()
}

#[cfg(test)]
mod tests {
    use super::{Completion, matching};

    #[test]
    fn prefix_matches_come_first() {
        let values = ["Rust", "Robust", "C", "trust"].map(str::to_owned);
        for (partial, expected) in [
            ("", vec!["Rust", "Robust", "C", "trust"]),
            ("r", vec!["Rust", "Robust", "trust"]),
            ("RUST", vec!["Rust", "trust"]),
            ("x", vec![]),
        ] {
            assert_eq!(matching(&values, partial), Completion::from(expected), "{partial}");
        }
    }
}
