//! The application that embeds the client, as the server's requests reach it.
//!
//! A [`Host`] answers elicitation, sampling, roots and interaction prompts, and approves tool
//! calls. The defaults declare no capabilities and deny everything.

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{
    ClientCapabilities, CreateMessage, FormSchema, LogLevel, Root, SampleResult, ToolDefinition,
};
use mcp_flow_proto::{Revision, RpcError};
use serde_json::{Map, Value, json};

use crate::interaction::{PendingPrompt, PromptAnswer};

/// Answers the server's requests and approves tool calls.
///
/// ```
/// use futures_util::future::BoxFuture;
/// use mcp_flow_client::host::{ServerIdentity, ElicitAnswer, Elicitation, Host};
/// use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
///
/// /// Accepts every form with its default values.
/// struct Agreeable;
///
/// impl Host for Agreeable {
///     fn capabilities(&self) -> ClientCapabilities {
///         let elicitation = Some(ElicitationCapability { form: true, url: false });
///         ClientCapabilities { elicitation, ..ClientCapabilities::default() }
///     }
///
///     fn elicit<'a>(&'a self, _: &'a ServerIdentity, _: Elicitation) -> BoxFuture<'a, ElicitAnswer> {
///         Box::pin(async { ElicitAnswer::Accept(serde_json::Map::new()) })
///     }
/// }
/// ```
pub trait Host: Send + Sync + 'static {
    /// Answers an elicitation, sampling or roots request in its wire form. Defaults to `None`: the
    /// typed methods below answer it.
    fn answer<'a>(
        &'a self,
        server: &'a ServerIdentity,
        method: &'a str,
        params: &'a Value,
    ) -> Option<BoxFuture<'a, Result<Value, RpcError>>> {
        let _ = (server, method, params);
        None
    }

    /// Receives a log message that belongs to the request this host was set for. Others arrive as
    /// [`ClientEvent::Log`](crate::ClientEvent::Log).
    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        let _ = (level, logger, data);
    }

    /// Capabilities to declare, read once per connection. Defaults to none.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// Answers an elicitation. Defaults to [`ElicitAnswer::Cancel`].
    fn elicit<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let _ = (server, question);
        Box::pin(async { ElicitAnswer::Cancel })
    }

    /// Runs a sampling request. Defaults to denying it.
    fn sample<'a>(
        &'a self,
        server: &'a ServerIdentity,
        request: CreateMessage,
    ) -> BoxFuture<'a, Result<SampleResult, SampleRefusal>> {
        let _ = (server, request);
        Box::pin(async { Err(SampleRefusal::Denied("sampling is not supported".to_owned())) })
    }

    /// Lists the roots. Defaults to none.
    fn roots<'a>(&'a self, server: &'a ServerIdentity) -> BoxFuture<'a, Vec<Root>> {
        let _ = server;
        Box::pin(async { Vec::new() })
    }

    /// Approves a tool call before it is sent, or denies it with a reason. Defaults to approving:
    /// the code that makes the call has decided.
    fn approve<'a>(
        &'a self,
        server: &'a ServerIdentity,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        let _ = (server, call);
        Box::pin(async { Ok(()) })
    }

    /// Answers a prompt of an interaction session. Defaults to [`PromptAnswer::Cancel`].
    fn answer_prompt<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        let _ = (server, question);
        Box::pin(async { PromptAnswer::Cancel(Some("no user is present to answer".to_owned())) })
    }
}

/// Host that declares no capabilities and denies every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct DenyAll;

impl Host for DenyAll {}

/// The server that a request comes from or a call goes to. Only `target` is trustworthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerIdentity {
    /// URL or command by which the user reaches it.
    pub target: String,
    /// Name that the server gives itself.
    pub name: String,
    /// Negotiated revision.
    pub revision: Revision,
}

/// An elicitation: a request for input from the user.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Elicitation {
    /// A form to fill in.
    Form {
        /// Message to the user.
        message: String,
        /// The form as JSON Schema, as received.
        schema: Value,
        /// The decoded form; `None` if the schema is not a valid form.
        form: Option<FormSchema>,
    },
    /// A URL to open, for data that must not pass through the client. Show it in full, and open it
    /// only with the user's consent.
    Url {
        /// Message to the user.
        message: String,
        /// Address.
        url: String,
        /// The server's `elicitationId`.
        id: Option<String>,
    },
}

/// The user's answer to an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitAnswer {
    /// Accepted, with these values. Missing fields get their defaults. Empty for a URL.
    Accept(Map<String, Value>),
    /// Declined explicitly.
    Decline,
    /// Dismissed without a decision.
    Cancel,
}

/// Failure of a sampling request (C-33).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SampleRefusal {
    /// Denied by the user or a policy.
    #[error("denied: {0}")]
    Denied(String),
    /// The model failed.
    #[error("the model failed: {0}")]
    Model(String),
    /// The model timed out.
    #[error("the model timed out")]
    Timeout,
    /// The server exceeds its rate limit.
    #[error("too many requests")]
    RateLimited,
}

/// A tool call that awaits approval (PAT-028, PAT-034).
#[derive(Clone, Copy, Debug)]
pub struct ProposedCall<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// All arguments that would be sent.
    pub arguments: &'a Map<String, Value>,
    /// Definition of the tool, if it was listed. Its annotations are untrusted.
    pub definition: Option<&'a ToolDefinition>,
}

/// Encodes capabilities for a revision.
pub(crate) fn declare(capabilities: &ClientCapabilities, revision: Revision) -> Value {
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
    if let Some(extensions) = capabilities.extensions.all() {
        wire.insert("extensions".to_owned(), extensions.clone().into());
    }
    wire.into()
}

#[cfg(test)]
mod tests {
    use super::declare;
    use mcp_flow_proto::model::{
        ClientCapabilities, ClientExtensions, ElicitationCapability, RootsCapability,
        SamplingCapability,
    };
    use mcp_flow_proto::{Raw, Revision};
    use serde_json::{Map, json};

    /// PAT-009, PAT-047: capabilities are encoded as the revision defines them.
    #[test]
    fn capabilities_are_encoded_for_the_revision() {
        let all = ClientCapabilities {
            sampling: Some(SamplingCapability { tools: true, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            roots: Some(RootsCapability { list_changed: true }),
            inline_interaction: true,
            extensions: ClientExtensions::default().with("com.example/x", Map::new()),
        };
        let old = declare(&all, Revision::V2024_11_05);
        assert_eq!((&old["sampling"], old.get("elicitation")), (&json!({}), None));
        assert_eq!(declare(&all, Revision::V2025_06_18)["elicitation"], json!({}));
        let newest = declare(&all, Revision::V2025_11_25).to_string();
        assert_eq!(ClientCapabilities::from_raw(Raw::Json(&newest)).unwrap(), all);
        assert_eq!(declare(&all, Revision::V2026_07_28)["roots"], json!({}));
        assert_eq!(declare(&ClientCapabilities::default(), Revision::V2025_11_25), json!({}));
    }
}
