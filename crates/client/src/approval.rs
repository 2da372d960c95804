//! Approval policies: a host that allows, asks or denies, with rate limits (C-33, PAT-028, PAT-049
//! to PAT-056).
//!
//! A [`PolicyHost`] stands between servers and the [`Approver`] who approves. Policies are per
//! server and default to ask; without an approver, ask means deny. [`models`] selects the model for
//! a sampling request.
//!
//! A sampling request never becomes context for anything else, and `includeContext` adds nothing of
//! other servers.

mod limiter;
pub mod models;
mod policy;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{
    ClientCapabilities, ClientExtensions, CreateMessage, ElicitationCapability, Root,
    RootsCapability, SampleResult, SamplingCapability,
};

use crate::host::{ElicitAnswer, Elicitation, Host, ProposedCall, SampleRefusal, ServerIdentity};
use crate::interaction::{PendingPrompt, PromptAnswer};
use limiter::Limiter;
pub use mcp_flow_rate::Rate;
use models::Models;
pub use policy::{Policies, Policy, PolicyTable, UnknownPolicy};

/// Approves calls and sampling, and answers questions; usually a user. Everything defaults to no.
pub trait Approver: Send + Sync + 'static {
    /// Returns whether anyone can be asked. Defaults to no; then nothing below is called.
    fn is_present(&self) -> bool {
        false
    }

    /// Supported elicitation modes. Defaults to none.
    fn elicitation_modes(&self) -> Option<ElicitationCapability> {
        None
    }

    /// Approves a tool call with all its arguments, or rejects it.
    fn review_call<'a>(
        &'a self,
        server: &'a ServerIdentity,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, bool> {
        let _ = (server, call);
        Box::pin(async { false })
    }

    /// Approves a sampling request before it is sent to the model, and may change it.
    fn review_request<'a>(
        &'a self,
        server: &'a ServerIdentity,
        model: &'a str,
        request: CreateMessage,
    ) -> BoxFuture<'a, Review<CreateMessage>> {
        let _ = (server, model, request);
        Box::pin(async { Review::Denied("no user is present to approve it".to_owned()) })
    }

    /// Approves a model's answer before it is sent to the server, and may change it.
    fn review_answer<'a>(
        &'a self,
        server: &'a ServerIdentity,
        answer: SampleResult,
    ) -> BoxFuture<'a, Review<SampleResult>> {
        let _ = (server, answer);
        Box::pin(async { Review::Denied("no user is present to approve it".to_owned()) })
    }

    /// Answers an elicitation.
    fn elicit<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let _ = (server, question);
        Box::pin(async { ElicitAnswer::Cancel })
    }

    /// Answers a prompt of an interaction session.
    fn answer_prompt<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        let _ = (server, question);
        Box::pin(async { PromptAnswer::Cancel(Some("no user is present to answer".to_owned())) })
    }
}

impl Approver for crate::host::DenyAll {}

/// Decision of an [`Approver`].
#[derive(Clone, Debug, PartialEq)]
pub enum Review<T> {
    /// Approved, perhaps changed.
    Approved(T),
    /// Denied, for this reason.
    Denied(String),
}

/// A [`Host`] that applies [`Policies`] and rate limits, and asks an [`Approver`] where they say
/// so.
pub struct PolicyHost {
    approver: Arc<dyn Approver>,
    policies: Policies,
    models: Option<Models>,
    roots: Vec<Root>,
    sampling: Limiter,
    questions: Limiter,
}

impl PolicyHost {
    /// Creates a host whose policies are to ask this approver.
    pub fn new(approver: impl Approver) -> Self {
        Self {
            approver: Arc::new(approver),
            policies: Policies::default(),
            models: None,
            roots: Vec::new(),
            sampling: Limiter::new(Rate::per_minute(10)),
            questions: Limiter::new(Rate::per_minute(60)),
        }
    }

    /// Replaces the policies.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Sets the models for sampling. Without any, sampling is not offered.
    #[must_use]
    pub fn models(mut self, models: Models) -> Self {
        self.models = Some(models);
        self
    }

    /// Sets the roots that servers may list.
    #[must_use]
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = roots.into_iter().collect();
        self
    }

    /// Limits the sampling requests of each server. Defaults to 10 per minute.
    #[must_use]
    pub fn sampling_rate(mut self, rate: Rate) -> Self {
        self.sampling = Limiter::new(rate);
        self
    }

    /// Limits the elicitations of each server. Defaults to 60 per minute.
    #[must_use]
    pub fn question_rate(mut self, rate: Rate) -> Self {
        self.questions = Limiter::new(rate);
        self
    }

    /// The policy for a server; ask becomes deny if no approver is present.
    fn decide(&self, rules: &PolicyTable, server: &ServerIdentity) -> Policy {
        match rules.for_server(&server.target) {
            Policy::Ask if !self.approver.is_present() => Policy::Deny,
            policy => policy,
        }
    }

    async fn ask_model(
        &self,
        server: &ServerIdentity,
        mut request: CreateMessage,
    ) -> Result<SampleResult, SampleRefusal> {
        let Some(models) = &self.models else {
            return Err(SampleRefusal::Denied("no model is configured".to_owned()));
        };
        let policy = self.decide(&self.policies.sampling, server);
        if policy == Policy::Deny {
            let why = "sampling is denied; allow it by a policy";
            return Err(SampleRefusal::Denied(why.to_owned()));
        }
        // Checked before the user is asked, not after.
        if !self.sampling.allows(&server.target) {
            return Err(SampleRefusal::RateLimited);
        }
        let Some(model) = models.choose(request.model_preferences.as_ref()) else {
            return Err(SampleRefusal::Denied("no model is configured".to_owned()));
        };
        if policy == Policy::Ask {
            match self.approver.review_request(server, model.name(), request).await {
                Review::Approved(reviewed) => request = reviewed,
                Review::Denied(why) => return Err(SampleRefusal::Denied(why)),
            }
        }
        let answer = model.ask(request).await?;
        match self.decide(&self.policies.answers, server) {
            Policy::Allow => Ok(answer),
            Policy::Ask => match self.approver.review_answer(server, answer).await {
                Review::Approved(reviewed) => Ok(reviewed),
                Review::Denied(why) => Err(SampleRefusal::Denied(why)),
            },
            // A policy that allows requests without an approver allows the answers, too.
            Policy::Deny
                if policy == Policy::Allow && !self.policies.answers.denies(&server.target) =>
            {
                Ok(answer)
            }
            Policy::Deny => Err(SampleRefusal::Denied("answers are denied by a policy".to_owned())),
        }
    }
}

impl std::fmt::Debug for PolicyHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PolicyHost")
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}

impl Host for PolicyHost {
    fn capabilities(&self) -> ClientCapabilities {
        let tools = self.models.as_ref().is_some_and(Models::support_tools);
        ClientCapabilities {
            sampling: self.models.as_ref().map(|_| SamplingCapability { tools, context: false }),
            elicitation: self.approver.elicitation_modes().filter(|_| self.approver.is_present()),
            roots: (!self.roots.is_empty()).then_some(RootsCapability { list_changed: false }),
            inline_interaction: true,
            extensions: ClientExtensions::default(),
        }
    }

    fn elicit<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            match self.decide(&self.policies.questions, server) {
                Policy::Deny => ElicitAnswer::Decline,
                _ if !self.questions.allows(&server.target) => ElicitAnswer::Decline,
                // Allow still asks: only the user knows the answer.
                Policy::Ask | Policy::Allow => self.approver.elicit(server, question).await,
            }
        })
    }

    fn sample<'a>(
        &'a self,
        server: &'a ServerIdentity,
        request: CreateMessage,
    ) -> BoxFuture<'a, Result<SampleResult, SampleRefusal>> {
        Box::pin(self.ask_model(server, request))
    }

    fn roots<'a>(&'a self, _: &'a ServerIdentity) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(async { self.roots.clone() })
    }

    fn approve<'a>(
        &'a self,
        server: &'a ServerIdentity,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match self.decide(&self.policies.calls, server) {
                Policy::Allow => Ok(()),
                Policy::Deny => {
                    Err("calls to this server are denied; allow them by a policy".to_owned())
                }
                Policy::Ask => match self.approver.review_call(server, call).await {
                    true => Ok(()),
                    false => Err("the call was not approved".to_owned()),
                },
            }
        })
    }

    fn answer_prompt<'a>(
        &'a self,
        server: &'a ServerIdentity,
        question: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        self.approver.answer_prompt(server, question)
    }
}
