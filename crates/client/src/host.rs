//! Who answers the server's questions.
//!
//! A server may ask for input of a person, for the answer of a model, and for the folders it may
//! work in. All of it ends up at one [`Host`]. The defaults declare nothing and deny everything:
//! without a person nothing is decided for one.

use futures_util::future::BoxFuture;
use mcp_flow_proto::Revision;
use mcp_flow_proto::model::{
    ClientCapabilities, CreateMessage, FormSchema, Root, SampleResult, ToolDefinition,
};
use serde_json::{Map, Value, json};

use crate::interaction::{PromptAnswer, Question};

/// Answers the server's questions.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use mcp_flow_client::host::{Asker, ElicitAnswer, Elicitation, Host};
/// use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
///
/// /// Says yes to every form, with nothing filled in but the defaults.
/// struct Agreeable;
///
/// impl Host for Agreeable {
///     fn capabilities(&self) -> ClientCapabilities {
///         let elicitation = Some(ElicitationCapability { form: true, url: false });
///         ClientCapabilities { elicitation, ..ClientCapabilities::default() }
///     }
///
///     fn elicit<'a>(&'a self, _: &'a Asker, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
///         Box::pin(async { ElicitAnswer::Accept(serde_json::Map::new()) })
///     }
/// }
/// ```
pub trait Host: Send + Sync + 'static {
    /// What servers are told this host can do. Asked once per connection. Defaults to nothing.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// Asks the person. Defaults to [`ElicitAnswer::Cancel`]: nobody is there.
    fn elicit<'a>(
        &'a self,
        asker: &'a Asker,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let _ = (asker, question);
        Box::pin(async { ElicitAnswer::Cancel })
    }

    /// Asks a model. Defaults to a refusal.
    fn sample<'a>(
        &'a self,
        asker: &'a Asker,
        request: CreateMessage,
    ) -> BoxFuture<'a, Result<SampleResult, SampleRefusal>> {
        let _ = (asker, request);
        Box::pin(async { Err(SampleRefusal::Denied("nobody is there to allow it".to_owned())) })
    }

    /// The folders the server may work in. Defaults to none.
    fn roots<'a>(&'a self, asker: &'a Asker) -> BoxFuture<'a, Vec<Root>> {
        let _ = asker;
        Box::pin(async { Vec::new() })
    }

    /// Is shown every call of a tool before it is sent, and may refuse it with a reason. Defaults
    /// to letting it through: whoever wrote the call has decided.
    fn approve<'a>(
        &'a self,
        asker: &'a Asker,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        let _ = (asker, call);
        Box::pin(async { Ok(()) })
    }

    /// Answers a question of a conversation. Defaults to [`PromptAnswer::Cancel`].
    fn answer<'a>(
        &'a self,
        asker: &'a Asker,
        question: &'a Question,
    ) -> BoxFuture<'a, PromptAnswer> {
        let _ = (asker, question);
        Box::pin(async { PromptAnswer::Cancel(Some("nobody is there to answer".to_owned())) })
    }
}

/// A host without a person: declares nothing, denies everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Host for Nobody {}

/// Which server asks. Its own words about itself are not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// How the user reaches it: a URL, a command.
    pub target: String,
    /// What it calls itself.
    pub name: String,
    /// What is spoken with it.
    pub revision: Revision,
}

/// A question for the person.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Elicitation {
    /// Fill in a form.
    Form {
        /// What for.
        message: String,
        /// The form as JSON Schema, as it came.
        schema: Value,
        /// The form read, unless it holds what no form may.
        form: Option<FormSchema>,
    },
    /// Go to an address, for what must not pass through here. Show it in full, and open it only
    /// when told to.
    Url {
        /// What for.
        message: String,
        /// Where.
        url: String,
        /// What the server knows it by.
        id: Option<String>,
    },
}

/// What the person said.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitAnswer {
    /// Yes, with this. Fields left out that have a default get it. Empty for a URL.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Went away without deciding.
    Cancel,
}

/// Why a model was not asked, or did not answer (C-33).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleRefusal {
    /// A person or a policy said no.
    #[error("denied: {0}")]
    Denied(String),
    /// The model failed.
    #[error("the model failed: {0}")]
    Model(String),
    /// The model took too long.
    #[error("the model took too long")]
    Timeout,
    /// The server asks too often.
    #[error("too many requests")]
    RateLimited,
}

/// A call of a tool that was not sent yet (PAT-028, PAT-034).
#[derive(Clone, Copy, Debug)]
pub struct ProposedCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Everything that would leave.
    pub arguments: &'a Map<String, Value>,
    /// What the server says of the tool, if it was listed. Its hints are claims, not facts.
    pub definition: Option<&'a ToolDefinition>,
}

/// Capabilities as a server of this revision is told.
pub(crate) fn declare(capabilities: ClientCapabilities, revision: Revision) -> Value {
    let features = revision.features();
    let mut wire = Map::new();
    if let Some(sampling) = capabilities.sampling {
        let mut parts = Map::new();
        if features.sampling_tools {
            let known = [("tools", sampling.tools), ("context", sampling.context)];
            for (name, _) in known.into_iter().filter(|(_, is_there)| *is_there) {
                parts.insert(name.to_owned(), json!({}));
            }
        }
        wire.insert("sampling".to_owned(), parts.into());
    }
    if let Some(elicitation) = capabilities.elicitation
        && revision >= Revision::V2025_06_18
        && (features.elicitation_modes || elicitation.form)
    {
        let mut parts = Map::new();
        if features.elicitation_modes {
            let known = [("form", elicitation.form), ("url", elicitation.url)];
            for (name, _) in known.into_iter().filter(|(_, is_there)| *is_there) {
                parts.insert(name.to_owned(), json!({}));
            }
        }
        wire.insert("elicitation".to_owned(), parts.into());
    }
    if let Some(roots) = capabilities.roots {
        let parts = match roots.list_changed && !revision.is_stateless() {
            true => json!({"listChanged": true}),
            false => json!({}),
        };
        wire.insert("roots".to_owned(), parts);
    }
    if capabilities.inline_interaction {
        let delivery = json!({"interaction": {"delivery": "inline"}});
        wire.insert("experimental".to_owned(), delivery);
    }
    wire.into()
}

#[cfg(test)]
mod tests {
    use super::declare;
    use mcp_flow_proto::model::{
        ClientCapabilities, ElicitationCapability, RootsCapability, SamplingCapability,
    };
    use mcp_flow_proto::{Raw, Revision};
    use serde_json::json;

    /// PAT-009, PAT-047: what is declared is what a server of the revision reads.
    #[test]
    fn capabilities_follow_the_revision() {
        let all = ClientCapabilities {
            sampling: Some(SamplingCapability { tools: true, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            roots: Some(RootsCapability { list_changed: true }),
            inline_interaction: true,
        };
        let old = declare(all, Revision::V2024_11_05);
        assert_eq!((&old["sampling"], old.get("elicitation")), (&json!({}), None));
        assert_eq!(declare(all, Revision::V2025_06_18)["elicitation"], json!({}));
        let newest = declare(all, Revision::V2025_11_25).to_string();
        assert_eq!(ClientCapabilities::from_raw(Raw::Json(&newest)).unwrap(), all);
        assert_eq!(declare(all, Revision::V2026_07_28)["roots"], json!({}));
        assert_eq!(declare(ClientCapabilities::default(), Revision::V2025_11_25), json!({}));
    }
}
