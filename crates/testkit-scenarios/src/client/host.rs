//! Scripted host: answers requests and prompts as a test dictates.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use mcp_flow_client::host::{ElicitAnswer, Elicitation, Host, SampleRefusal, ServerIdentity};
use mcp_flow_client::interaction::{PendingPrompt, PromptAnswer};
use mcp_flow_proto::model::{
    ClientCapabilities, ClientExtensions, CreateMessage, ElicitationCapability, Role, Root,
    RootsCapability, SampleResult, SamplingCapability,
};
use serde_json::{Value, json};

/// Fills in every form with a name, answers for a model, has one root, and answers prompts in
/// order.
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    answers: Arc<Mutex<VecDeque<PromptAnswer>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Creates a host that answers prompts with these, in order.
    pub fn answering<A: Into<Value>>(answers: impl IntoIterator<Item = A>) -> Self {
        let answers = answers.into_iter().map(|answer| PromptAnswer::Value(answer.into()));
        Self { answers: Arc::new(Mutex::new(answers.collect())), seen: Arc::default() }
    }

    /// Adds an answer.
    pub fn then(&self, answer: PromptAnswer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push_back(answer);
    }

    /// Returns the prompts seen, with the problem of the previous answer.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, what: String) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

impl Host for Scripted {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: Some(SamplingCapability { tools: true, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            roots: Some(RootsCapability { list_changed: true }),
            inline_interaction: false,
            extensions: ClientExtensions::default(),
        }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            match question {
                Elicitation::Form { message, .. } => {
                    self.note(message);
                    let content = json!({"name": "Ada", "one": "a"});
                    ElicitAnswer::Accept(content.as_object().cloned().unwrap_or_default())
                }
                Elicitation::Url { url, .. } => {
                    self.note(url);
                    ElicitAnswer::Accept(serde_json::Map::new())
                }
                _ => ElicitAnswer::Cancel,
            }
        })
    }

    fn sample<'a>(
        &'a self,
        asker: &'a ServerIdentity,
        request: CreateMessage,
    ) -> BoxFuture<'a, Result<SampleResult, SampleRefusal>> {
        Box::pin(async move {
            self.note(format!("{} asks {} messages", asker.name, request.messages.len()));
            Ok(SampleResult {
                role: Role::Assistant,
                content: vec!["Paris".into()],
                model: "stub".to_owned(),
                stop_reason: Some("endTurn".to_owned()),
                meta: None,
            })
        })
    }

    fn roots<'a>(&'a self, _: &'a ServerIdentity) -> BoxFuture<'a, Vec<Root>> {
        let root = Root { uri: "file:///work".to_owned(), name: None, meta: None };
        Box::pin(async { vec![root] })
    }

    fn answer_prompt<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: &'a PendingPrompt,
    ) -> BoxFuture<'a, PromptAnswer> {
        Box::pin(async {
            let wrong = question.rejection.as_ref().map(|wrong| format!(" ({})", wrong.error));
            self.note(format!("{}{}", question.prompt.message, wrong.unwrap_or_default()));
            let next = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            next.unwrap_or(PromptAnswer::Cancel(Some("out of answers".to_owned())))
        })
    }
}

/// Fills in forms by the names of their fields, each with its next value.
#[derive(Debug, Default)]
pub struct FormFiller {
    values: Mutex<HashMap<&'static str, VecDeque<Value>>>,
}

impl FormFiller {
    /// Creates a host with values for each field, in order.
    pub fn new(values: impl IntoIterator<Item = (&'static str, Vec<Value>)>) -> Self {
        let values = values.into_iter().map(|(name, values)| (name, values.into()));
        Self { values: Mutex::new(values.collect()) }
    }
}

impl Host for FormFiller {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: false });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        let Elicitation::Form { schema, .. } = question else {
            return Box::pin(async { ElicitAnswer::Cancel });
        };
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let fields = schema["properties"].as_object().into_iter().flatten();
        let filled = fields.filter_map(|(name, _)| {
            let value = values.get_mut(name.as_str())?.pop_front()?;
            Some((name.clone(), value))
        });
        let filled = ElicitAnswer::Accept(filled.collect());
        Box::pin(async { filled })
    }
}
