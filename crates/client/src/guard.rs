//! A host with rules: what may happen without asking, what is asked, what never happens, and how
//! often (C-33, PAT-028, PAT-049 to PAT-056).
//!
//! A [`Guard`] stands between a server and the [`Person`] at this end. Policies are per server;
//! without one for a server the default counts, which is to ask, and without a person asking means
//! no. Models are chosen here, by what the server would like and what there is ([`models`]).
//!
//! What a server wants said to a model is never context for anything else, and nothing of other
//! servers is added to it, whatever it asks for in `includeContext`.

mod limiter;
pub mod models;
mod policy;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_proto::model::{
    ClientCapabilities, CreateMessage, ElicitationCapability, Root, RootsCapability, SampleResult,
    SamplingCapability,
};

use crate::host::{Asker, ElicitAnswer, Elicitation, Host, ProposedCall, SampleRefusal};
use crate::interaction::{PromptAnswer, Question};
use limiter::Limiter;
pub use mcp_flow_rate::Rate;
use models::Models;
pub use policy::{Policies, Policy, Rules, UnknownPolicy};

/// Somebody who can be asked. Everything defaults to no.
pub trait Person: Send + Sync + 'static {
    /// Whether somebody is there at all. Defaults to no; then nothing below is called.
    fn is_there(&self) -> bool {
        false
    }

    /// Which kinds of forms and pages can be shown. Defaults to none.
    fn shows(&self) -> Option<ElicitationCapability> {
        None
    }

    /// Is shown a call of a tool, with everything that would leave, and says whether it may be.
    fn review_call<'a>(
        &'a self,
        asker: &'a Asker,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, bool> {
        let _ = (asker, call);
        Box::pin(async { false })
    }

    /// Is shown what would be sent to a model, and for which server; may change it.
    fn review_request<'a>(
        &'a self,
        asker: &'a Asker,
        model: &'a str,
        request: CreateMessage,
    ) -> BoxFuture<'a, Review<CreateMessage>> {
        let _ = (asker, model, request);
        Box::pin(async { Review::Denied("nobody is there to allow it".to_owned()) })
    }

    /// Is shown what a model answered, before the server sees it; may change it.
    fn review_answer<'a>(
        &'a self,
        asker: &'a Asker,
        answer: SampleResult,
    ) -> BoxFuture<'a, Review<SampleResult>> {
        let _ = (asker, answer);
        Box::pin(async { Review::Denied("nobody is there to allow it".to_owned()) })
    }

    /// Answers a question of a server.
    fn elicit<'a>(
        &'a self,
        asker: &'a Asker,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let _ = (asker, question);
        Box::pin(async { ElicitAnswer::Cancel })
    }

    /// Answers a question of a conversation.
    fn answer<'a>(
        &'a self,
        asker: &'a Asker,
        question: &'a Question,
    ) -> BoxFuture<'a, PromptAnswer> {
        let _ = (asker, question);
        Box::pin(async { PromptAnswer::Cancel(Some("nobody is there to answer".to_owned())) })
    }
}

impl Person for crate::host::Nobody {}

/// What a person says to something that is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Review<T> {
    /// Go on with this, as it was or changed.
    Approved(T),
    /// Do not, for this reason.
    Denied(String),
}

/// A host with rules.
pub struct Guard {
    person: Arc<dyn Person>,
    policies: Policies,
    models: Option<Models>,
    roots: Vec<Root>,
    sampling: Limiter,
    questions: Limiter,
}

impl Guard {
    /// A guard for this person, with the usual policies: everything is asked.
    pub fn new(person: impl Person) -> Self {
        Self {
            person: Arc::new(person),
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

    /// Gives the models that servers may ask, under the policies. Without any, none is offered.
    #[must_use]
    pub fn models(mut self, models: Models) -> Self {
        self.models = Some(models);
        self
    }

    /// Gives the folders servers may work in.
    #[must_use]
    pub fn roots(mut self, roots: impl IntoIterator<Item = Root>) -> Self {
        self.roots = roots.into_iter().collect();
        self
    }

    /// Sets how often a server may ask a model. Defaults to 10 a minute.
    #[must_use]
    pub fn sampling_rate(mut self, rate: Rate) -> Self {
        self.sampling = Limiter::new(rate);
        self
    }

    /// Sets how often a server may ask the person. Defaults to 60 a minute.
    #[must_use]
    pub fn question_rate(mut self, rate: Rate) -> Self {
        self.questions = Limiter::new(rate);
        self
    }

    /// The policy, or what it comes to when nobody is there to be asked.
    fn decide(&self, rules: &Rules, asker: &Asker) -> Policy {
        match rules.for_server(&asker.target) {
            Policy::Ask if !self.person.is_there() => Policy::Deny,
            policy => policy,
        }
    }

    async fn ask_model(
        &self,
        asker: &Asker,
        mut request: CreateMessage,
    ) -> Result<SampleResult, SampleRefusal> {
        let Some(models) = &self.models else {
            return Err(SampleRefusal::Denied("there is no model here".to_owned()));
        };
        let policy = self.decide(&self.policies.sampling, asker);
        if policy == Policy::Deny {
            let why = "servers may not ask a model here; a policy can allow it";
            return Err(SampleRefusal::Denied(why.to_owned()));
        }
        // Before the person is bothered, not after.
        if !self.sampling.admits(&asker.target) {
            return Err(SampleRefusal::RateLimited);
        }
        let Some(model) = models.choose(request.model_preferences.as_ref()) else {
            return Err(SampleRefusal::Denied("there is no model here".to_owned()));
        };
        if policy == Policy::Ask {
            match self.person.review_request(asker, model.name(), request).await {
                Review::Approved(reviewed) => request = reviewed,
                Review::Denied(why) => return Err(SampleRefusal::Denied(why)),
            }
        }
        let answer = model.ask(request).await?;
        match self.decide(&self.policies.answers, asker) {
            Policy::Allow => Ok(answer),
            Policy::Ask => match self.person.review_answer(asker, answer).await {
                Review::Approved(reviewed) => Ok(reviewed),
                Review::Denied(why) => Err(SampleRefusal::Denied(why)),
            },
            // Who allowed the request without a person to ask has allowed the answer.
            Policy::Deny
                if policy == Policy::Allow && !self.policies.answers.denies(&asker.target) =>
            {
                Ok(answer)
            }
            Policy::Deny => Err(SampleRefusal::Denied("answers may not be passed on".to_owned())),
        }
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Guard").field("policies", &self.policies).finish_non_exhaustive()
    }
}

impl Host for Guard {
    fn capabilities(&self) -> ClientCapabilities {
        let tools = self.models.as_ref().is_some_and(Models::take_tools);
        ClientCapabilities {
            sampling: self.models.as_ref().map(|_| SamplingCapability { tools, context: false }),
            elicitation: self.person.shows().filter(|_| self.person.is_there()),
            roots: (!self.roots.is_empty()).then_some(RootsCapability { list_changed: false }),
            inline_interaction: true,
        }
    }

    fn elicit<'a>(
        &'a self,
        asker: &'a Asker,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            match self.decide(&self.policies.questions, asker) {
                Policy::Deny => ElicitAnswer::Decline,
                _ if !self.questions.admits(&asker.target) => ElicitAnswer::Decline,
                // There is nothing to allow: only the person knows the answer.
                Policy::Ask | Policy::Allow => self.person.elicit(asker, question).await,
            }
        })
    }

    fn sample<'a>(
        &'a self,
        asker: &'a Asker,
        request: CreateMessage,
    ) -> BoxFuture<'a, Result<SampleResult, SampleRefusal>> {
        Box::pin(self.ask_model(asker, request))
    }

    fn roots<'a>(&'a self, _: &'a Asker) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(async { self.roots.clone() })
    }

    fn approve<'a>(
        &'a self,
        asker: &'a Asker,
        call: &'a ProposedCall<'a>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            match self.decide(&self.policies.calls, asker) {
                Policy::Allow => Ok(()),
                Policy::Deny => {
                    Err("tools of this server may not be called; a policy can allow it".to_owned())
                }
                Policy::Ask => match self.person.review_call(asker, call).await {
                    true => Ok(()),
                    false => Err("the call was not approved".to_owned()),
                },
            }
        })
    }

    fn answer<'a>(
        &'a self,
        asker: &'a Asker,
        question: &'a Question,
    ) -> BoxFuture<'a, PromptAnswer> {
        self.person.answer(asker, question)
    }
}
