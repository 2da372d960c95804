//! Questions of upstreams to callers: elicitation, sampling and roots, in every revision.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::Host;
use mcp_flow_client::host::ServerIdentity;
use mcp_flow_proto::error::RpcErrorKind;
use mcp_flow_proto::model::{
    APP_MIME_TYPE, APPS_EXTENSION, ClientCapabilities, ClientExtensions, CreateMessage, ElicitForm,
    ElicitUrl, ElicitationCapability, FormSchema, LogLevel, RootsCapability, SampleResult,
    SamplingCapability, TASKS_EXTENSION,
};
use mcp_flow_proto::{Revision, RpcError, method};
use mcp_flow_server::Context;
use mcp_flow_server::ask::Capability;
use mcp_flow_server::context::ClientError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::asked::AskedQuestion;
use crate::error::NOT_ANSWERED;
use crate::url_questions::UrlQuestions;

/// Host of a connection to an upstream. It declares all capabilities, because callers differ; of the
/// questions that belong to no call, only that for roots is answered.
pub(crate) struct ConnectionHost {
    /// The only caller of the connection, if it has roots.
    pub(crate) owner: Option<mcp_flow_server::context::Client>,
}

impl ConnectionHost {
    /// The roots of the caller, or none: many servers ask for them as soon as they are connected.
    async fn roots(&self) -> Value {
        let none = || json!({"roots": []});
        let Some(owner) = &self.owner else { return none() };
        let params = json!({});
        let asked = owner.request_within::<Value>(ROOTS_TIME, method::ROOTS_LIST, &params);
        asked.await.map_or_else(|_| none(), |roots| without_meta(&roots))
    }
}

/// Time for a client to list its roots.
const ROOTS_TIME: Duration = Duration::from_secs(10);

impl Host for ConnectionHost {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities {
            sampling: Some(SamplingCapability { tools: true, context: false }),
            elicitation: Some(ElicitationCapability { form: true, url: true }),
            roots: Some(RootsCapability { list_changed: false }),
            extensions: apps(),
            ..ClientCapabilities::default()
        }
    }

    fn answer<'a>(
        &'a self,
        _: &'a ServerIdentity,
        method: &'a str,
        _: &'a Value,
    ) -> Option<BoxFuture<'a, Result<Value, RpcError>>> {
        Some(Box::pin(async move {
            if method == method::ROOTS_LIST {
                return Ok(self.roots().await);
            }
            let why = "It is not known which caller the question is for.";
            Err(RpcError::new(NOT_ANSWERED).details(why))
        }))
    }
}

/// A question of an upstream with a handshake, whose call waits for the answer.
#[derive(Debug)]
pub(crate) struct LiveQuestion {
    pub(crate) asked: AskedQuestion,
    /// Revision of the upstream.
    pub(crate) revision: Revision,
    pub(crate) answer: oneshot::Sender<Result<Value, RpcError>>,
}

/// Host of one call. Questions wait in a queue until their session has an answer.
pub(crate) struct CallHost {
    /// The caller, while it waits.
    context: Option<Context>,
    capabilities: AskCapabilities,
    questions: Option<mpsc::Sender<LiveQuestion>>,
    takes_tasks: bool,
    /// Callers that were sent a URL elicitation.
    url_questions: Option<Arc<UrlQuestions>>,
}

impl CallHost {
    /// Creates the host of one round of a stateless request, which asks nothing by itself.
    pub(crate) fn for_round(context: Option<Context>, capabilities: AskCapabilities) -> Self {
        Self { context, capabilities, questions: None, takes_tasks: false, url_questions: None }
    }

    /// Creates the host of a call to an upstream with a handshake.
    pub(crate) fn for_call(
        context: Option<Context>,
        capabilities: AskCapabilities,
        questions: mpsc::Sender<LiveQuestion>,
    ) -> Self {
        Self {
            context,
            capabilities,
            questions: Some(questions),
            takes_tasks: false,
            url_questions: None,
        }
    }

    /// Notifies the caller when a URL elicitation of the call is complete.
    pub(crate) fn noting(self, url_questions: &Arc<UrlQuestions>) -> Self {
        Self { url_questions: Some(url_questions.clone()), ..self }
    }

    /// Declares that the call may continue as a task.
    pub(crate) fn with_tasks(self) -> Self {
        Self { takes_tasks: true, ..self }
    }

    async fn ask(&self, server: Revision, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.capabilities.check(method, params)?;
        let Some(method) = known_method(method) else {
            return Err(RpcError::method_not_found(method));
        };
        if let Some(roots) = self.ask_for_roots(method).await {
            return roots;
        }
        if let (Some(noted), Some(context)) = (&self.url_questions, &self.context) {
            noted.note(params, context);
        }
        let given_up = || RpcError::new(NOT_ANSWERED).details("The call it belongs to has ended.");
        let questions = self.questions.as_ref().ok_or_else(given_up)?;
        let params = without_meta(params);
        let (key, method) = (String::new(), method.to_owned());
        let asked = AskedQuestion { key, method, params, is_approval: false };
        let (answer, answered) = oneshot::channel();
        let question = LiveQuestion { asked, revision: server, answer };
        questions.send(question).await.map_err(|_| given_up())?;
        answered.await.map_err(|_| given_up())?
    }

    /// Asks for roots at once, if the caller can be sent requests: no person answers that.
    async fn ask_for_roots(&self, method: &str) -> Option<Result<Value, RpcError>> {
        let context = self.context.as_ref()?;
        if method != method::ROOTS_LIST || context.revision().is_stateless() {
            return None;
        }
        let limit = context.limits().client_request_time;
        let asked = context.client().request_within::<Value>(limit, method, &json!({})).await;
        Some(asked.map(|roots| without_meta(&roots)).map_err(refusal))
    }
}

impl Host for CallHost {
    fn capabilities(&self) -> ClientCapabilities {
        let declared = self.capabilities.declared();
        if !self.takes_tasks {
            return declared;
        }
        let extensions = declared.extensions.with(TASKS_EXTENSION, Map::new());
        ClientCapabilities { extensions, ..declared }
    }

    fn answer<'a>(
        &'a self,
        server: &'a ServerIdentity,
        method: &'a str,
        params: &'a Value,
    ) -> Option<BoxFuture<'a, Result<Value, RpcError>>> {
        Some(Box::pin(self.ask(server.revision, method, params)))
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: Value) {
        if let Some(context) = &self.context {
            context.log(level, logger, data);
        }
    }
}

/// The extension for apps. The gateway itself hides their metadata from callers without it.
fn apps() -> ClientExtensions {
    let types = Map::from_iter([("mimeTypes".to_owned(), json!([APP_MIME_TYPE]))]);
    ClientExtensions::default().with(APPS_EXTENSION, types)
}

/// Kinds of questions that the caller's client supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct AskCapabilities {
    form: bool,
    url: bool,
    sampling: bool,
    sampling_tools: bool,
    roots: bool,
}

impl AskCapabilities {
    /// The capabilities that the caller's client declares.
    pub(crate) fn of(context: &Context) -> Self {
        Self {
            form: context.client_can(Capability::ElicitationForm),
            url: context.client_can(Capability::ElicitationUrl),
            sampling: context.client_can(Capability::Sampling),
            sampling_tools: context.client_can(Capability::SamplingTools),
            roots: context.client_can(Capability::Roots),
        }
    }

    /// Returns whether the roots can be asked for.
    pub(crate) fn roots(self) -> bool {
        self.roots
    }

    /// Returns whether anything can be asked.
    pub(crate) fn any(self) -> bool {
        self.form || self.url || self.sampling || self.roots
    }

    fn declared(self) -> ClientCapabilities {
        let Self { form, url, sampling, sampling_tools, roots } = self;
        ClientCapabilities {
            sampling: sampling
                .then_some(SamplingCapability { tools: sampling_tools, context: false }),
            elicitation: (form || url).then_some(ElicitationCapability { form, url }),
            roots: roots.then_some(RootsCapability { list_changed: false }),
            extensions: apps(),
            ..ClientCapabilities::default()
        }
    }

    /// Checks that the caller's client declared what a question needs.
    pub(crate) fn check(self, method: &str, params: &Value) -> Result<(), RpcError> {
        let has = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
        let (needed, is_there) = match method {
            method::ELICITATION_CREATE if params["mode"] == "url" => {
                (Capability::ElicitationUrl, self.url)
            }
            method::ELICITATION_CREATE => (Capability::ElicitationForm, self.form),
            method::SAMPLING_CREATE_MESSAGE if has("tools") || has("toolChoice") => {
                (Capability::SamplingTools, self.sampling_tools)
            }
            method::SAMPLING_CREATE_MESSAGE => (Capability::Sampling, self.sampling),
            method::ROOTS_LIST => (Capability::Roots, self.roots),
            unknown => return Err(RpcError::method_not_found(unknown)),
        };
        if is_there {
            return Ok(());
        }
        let why = format!("The caller's client did not declare the capability {needed}.");
        Err(RpcError::method_not_found(method).details(why))
    }
}

/// Methods that ask a client.
pub(crate) fn known_method(name: &str) -> Option<&'static str> {
    [method::ELICITATION_CREATE, method::SAMPLING_CREATE_MESSAGE, method::ROOTS_LIST]
        .into_iter()
        .find(|known| *known == name)
}

/// Converts a question to the form of the caller's revision. What cannot be read stays as it is.
pub(crate) fn question_for(
    revision: Revision,
    method: &str,
    params: &Value,
) -> Result<Value, RpcError> {
    let text = |name: &str| params.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(match method {
        method::ELICITATION_CREATE if params["mode"] == "url" => {
            let (Some(message), Some(url)) = (text("message"), text("url")) else {
                return Err(RpcError::invalid_params("message and url must be strings"));
            };
            let id = match text("elicitationId") {
                Some(id) => id,
                None => random_id()?,
            };
            ElicitUrl { message, url, id }.wire(revision)
        }
        method::ELICITATION_CREATE => {
            let Some(message) = text("message") else {
                return Err(RpcError::invalid_params("message must be a string"));
            };
            // The client knows every form, the deprecated ones as well.
            if revision >= Revision::V2025_11_25 {
                let mut form = without_meta(params);
                form["mode"] = "form".into();
                return Ok(form);
            }
            let schema = FormSchema::from_schema(&params["requestedSchema"]).ok();
            let form = schema.and_then(|schema| ElicitForm { message, schema }.wire(revision).ok());
            form.unwrap_or_else(|| without_meta(params))
        }
        method::SAMPLING_CREATE_MESSAGE => {
            let request: Option<CreateMessage> = serde_json::from_value(params.clone()).ok();
            let wire =
                request.and_then(|request| serde_json::to_value(request.wire(revision)).ok());
            wire.unwrap_or_else(|| without_meta(params))
        }
        _ => json!({}),
    })
}

/// Converts an answer to the form of the upstream's revision.
pub(crate) fn answer_for(revision: Revision, method: &str, answer: Value) -> Value {
    if method != method::SAMPLING_CREATE_MESSAGE {
        return without_meta(&answer);
    }
    let result: Option<SampleResult> = serde_json::from_value(answer.clone()).ok();
    let wire = result.and_then(|result| serde_json::to_value(result.wire(revision)).ok());
    wire.unwrap_or_else(|| without_meta(&answer))
}

/// Copies an object without `_meta` and the members of results of one hop.
fn without_meta(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept =
                members.iter().filter(|(name, _)| !["_meta", "resultType"].contains(&&***name));
            let kept = kept.map(|(name, value)| (name.clone(), value.clone()));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// The error of an upstream's question that the caller's client refused.
pub(crate) fn refusal(error: ClientError) -> RpcError {
    match error {
        ClientError::Refused(error) => {
            let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            let code = code.unwrap_or(NOT_ANSWERED.code);
            let message = error["message"].as_str().unwrap_or("no reason given");
            let message: String = message.chars().take(1000).collect();
            let kind = RpcErrorKind { code, stateless_code: code, ..NOT_ANSWERED };
            RpcError::new(kind).message(message)
        }
        other => RpcError::new(NOT_ANSWERED).details(other.to_string()),
    }
}

fn random_id() -> Result<String, RpcError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| RpcError::internal())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
