//! Completion of template variables.

use mcp_flow_proto::Raw;

use super::template::UriTemplate;
use super::{BadResource, ResourceTemplate, TemplateBuilder};
use crate::completion::{
    Completer, Completion, ResolvedArguments, no_completions, unknown_argument,
};
use crate::context::Context;
use crate::handler::Reply;

impl TemplateBuilder {
    /// Sets a list of completions for a variable.
    ///
    /// ```
    /// use mcp_flow_server::{Context, ResourceTemplate};
    /// use std::collections::HashMap;
    ///
    /// let planets = ResourceTemplate::builder("planets:/{name}")
    ///     .complete_from("name", ["Earth", "Mars"])
    ///     .read(async |_: Context, _: HashMap<String, String>| "round");
    /// assert!(planets.is_ok());
    /// ```
    pub fn complete_from<T: Into<String>>(
        mut self,
        variable: impl Into<String>,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        self.completers.push((variable.into(), Completer::list(values)));
        self
    }

    /// Sets a function that completes a variable from the text typed so far and the variables
    /// already given. It may block.
    pub fn complete<R: Into<Completion>>(
        mut self,
        variable: impl Into<String>,
        function: impl Fn(&Context, &str, &ResolvedArguments) -> R + Send + Sync + 'static,
    ) -> Self {
        self.completers.push((variable.into(), Completer::function(function)));
        self
    }
}

impl ResourceTemplate {
    /// Returns whether any of its variables has completions.
    pub(crate) fn has_completions(&self) -> bool {
        !self.completers.is_empty()
    }

    /// Completes a variable.
    pub(crate) fn complete(
        &self,
        context: &Context,
        variable: &str,
        partial: &str,
        resolved: Raw<'_>,
    ) -> Reply {
        let names = self.template.names();
        if !names.contains(&variable) {
            return Reply::Ready(Err(unknown_argument(variable, &names)));
        }
        let completer = self.completers.iter().find(|(name, _)| name == variable);
        let Some((_, completer)) = completer else { return no_completions(context) };
        match ResolvedArguments::read(resolved, &names) {
            Ok(resolved) => completer.reply(context, partial, resolved),
            Err(error) => Reply::Ready(Err(error)),
        }
    }
}

/// Checks that completions are given only for variables of the template.
pub(super) fn check_completers(
    text: &str,
    template: &UriTemplate,
    completers: &[(String, Completer)],
) -> Result<(), BadResource> {
    let names = template.names();
    match completers.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        None => Ok(()),
        Some((name, _)) => Err(BadResource::Template {
            template: text.to_owned(),
            reason: format!("it has no variable {name} to suggest values for"),
        }),
    }
}
