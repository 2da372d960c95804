//! Forwarding of one request to an upstream, and its reply.
//!
//! Most requests are sent, and their result is the reply. If the upstream asks something, or a person
//! has to approve the call first, the rest of the call is a session: `session` has it in the journal,
//! and `follow` asks the caller.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::{Client, Error, Host, Request, RequestParams};
use mcp_flow_proto::model::{Meta, TASK_RESULT_TYPE};
use mcp_flow_proto::{OwnedRaw, Raw, RpcError, method};
use mcp_flow_server::{Context, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::asked::AskedQuestion;
use crate::error;
use crate::isolation::Caller;
use crate::live::{LiveCall, LiveEvent};
use crate::naming;
use crate::pool::Lease;
use crate::question::{AskCapabilities, CallHost, LiveQuestion, known_method};
use crate::result;
use crate::session::Sessions;
use crate::streams;
use crate::task::{self, RoundState};
use crate::upstream::Upstream;

/// A request that is forwarded, by the names of the upstream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Forwarded {
    Tool {
        name: String,
        arguments: Value,
        #[serde(default)]
        meta: Meta,
    },
    Prompt {
        name: String,
        arguments: Value,
        #[serde(default)]
        meta: Meta,
    },
    Read {
        uri: String,
        /// Part of the URI that the gateway added.
        #[serde(default)]
        alias: String,
        #[serde(default)]
        meta: Meta,
    },
}

/// Progress of a request that was sent.
pub(crate) enum Progress {
    Result(OwnedRaw),
    /// A stateless upstream asks, and expects the next round with this state.
    Asked(Vec<AskedQuestion>, Option<RoundState>),
    /// An upstream with a handshake asks, while its call waits.
    Live(LiveCall, Box<LiveQuestion>),
}

/// The caller of a request, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) caller: Caller,
    pub(crate) capabilities: AskCapabilities,
    /// Its request, if that has not ended.
    pub(crate) context: Option<Context>,
}

impl Requester {
    pub(crate) fn of(context: &Context) -> Self {
        let (caller, capabilities) = (Caller::of(context), AskCapabilities::of(context));
        Self { caller, capabilities, context: Some(context.clone()) }
    }
}

impl Forwarded {
    /// Handles a request: sends it to the upstream, and replies with its result.
    pub(crate) async fn run(
        self,
        upstream: Arc<Upstream>,
        sessions: Arc<Sessions>,
        context: Context,
    ) -> Outcome {
        let _running = upstream.metrics.begin();
        context.forwarded_to(upstream.name());
        let outcome = self.outcome_of_user(&upstream, &sessions, &context).await;
        if let Err(error) = &outcome
            && error.has("server")
        {
            upstream.record_error(error);
        }
        outcome
    }

    /// The outcome for a caller that uses its own account, if the upstream needs one. If that is
    /// rejected, the caller logs in again.
    async fn outcome_of_user(
        &self,
        upstream: &Arc<Upstream>,
        sessions: &Arc<Sessions>,
        context: &Context,
    ) -> Outcome {
        if let Some(reply) = upstream.require_login(context, false).await {
            return reply;
        }
        if let Some(reply) = self.tool().and_then(|tool| upstream.reply_login(context, tool)) {
            return reply;
        }
        let outcome = self.outcome(upstream, sessions, context).await;
        let is_rejected = |error: &RpcError| error.has(error::UNAUTHORIZED);
        if upstream.settings.accounts.is_none() || !outcome.as_ref().is_err_and(is_rejected) {
            return outcome;
        }
        match upstream.require_login(context, true).await {
            Some(reply) => reply,
            None => self.outcome(upstream, sessions, context).await,
        }
    }

    async fn outcome(
        &self,
        upstream: &Arc<Upstream>,
        sessions: &Arc<Sessions>,
        context: &Context,
    ) -> Outcome {
        if let Some(round) = sessions.carried(context) {
            return sessions.resume(upstream, self, context, round).await;
        }
        if self.needs_approval(upstream) {
            return sessions.open(upstream, self, context, None).await;
        }
        match self.send(upstream, &Requester::of(context)).await? {
            Progress::Result(result) => self.reply(upstream, context, &result).await,
            asked => sessions.open(upstream, self, context, Some(asked)).await,
        }
    }

    /// Sends the request, and waits for its result or a question.
    pub(crate) async fn send(
        &self,
        upstream: &Arc<Upstream>,
        requester: &Requester,
    ) -> Result<Progress, RpcError> {
        let lease = upstream.lease(&requester.caller, self.tool()).await?;
        if lease.revision().is_stateless() {
            return self.send_round_on(upstream, requester, &lease, Map::new(), None).await;
        }
        let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
        let Requester { capabilities, context, .. } = requester;
        let host = CallHost::for_call(context.clone(), *capabilities, sender);
        let host = Arc::new(host.noting(&upstream.url_questions));
        let sent = match self {
            Self::Tool { name, arguments, meta } if task::is_required(&lease, name).await => {
                let call = (name.as_str(), arguments.clone(), meta.clone());
                task::call_as_task(lease.client(), call, host, context.as_ref())
            }
            _ => self.request(lease.client(), host, None, context.as_ref()),
        };
        let mut call = LiveCall::new(sent, questions, lease);
        match call.next().await {
            LiveEvent::Response(response) => {
                response.map(Progress::Result).map_err(|error| failed(upstream, error))
            }
            LiveEvent::Question(question) => Ok(Progress::Live(call, question)),
        }
    }

    /// Sends the next round of a request to a stateless upstream.
    pub(crate) async fn send_round(
        &self,
        upstream: &Arc<Upstream>,
        requester: &Requester,
        answers: Map<String, Value>,
        state: Option<RoundState>,
    ) -> Result<Progress, RpcError> {
        let lease = upstream.lease(&requester.caller, self.tool()).await?;
        if !lease.revision().is_stateless() {
            let what = "it no longer supports the revision in which it asked";
            return Err(error::lost(upstream.name(), what));
        }
        let state = match state {
            Some(RoundState::Task { task }) => {
                return task::follow(upstream, requester, &lease, &task, answers).await;
            }
            Some(RoundState::Request(state)) => Some(state),
            None => None,
        };
        self.send_round_on(upstream, requester, &lease, answers, state).await
    }

    async fn send_round_on(
        &self,
        upstream: &Upstream,
        requester: &Requester,
        lease: &Lease,
        answers: Map<String, Value>,
        state: Option<String>,
    ) -> Result<Progress, RpcError> {
        let Requester { capabilities, context, .. } = requester;
        let mut host = CallHost::for_round(context.clone(), *capabilities);
        if let Self::Tool { .. } = self {
            host = host.with_tasks();
        }
        let round = Some((answers, state));
        let sent = self.request(lease.client(), Arc::new(host), round, context.as_ref());
        let result = sent.await.map_err(|error| failed(upstream, error))?;
        match self.read_kind(upstream.name(), *capabilities, result.as_raw())? {
            ResultKind::Complete => Ok(Progress::Result(result)),
            ResultKind::Required(questions, state) => {
                Ok(Progress::Asked(questions, state.map(RoundState::Request)))
            }
            ResultKind::Task => {
                let task = task::read_task(upstream, &result)?;
                task::follow_new(upstream, requester, lease, task.task_id).await
            }
        }
    }

    /// Reads the kind of a result.
    fn read_kind(
        &self,
        server: &str,
        capabilities: AskCapabilities,
        result: Raw<'_>,
    ) -> Result<ResultKind, RpcError> {
        let names = ["resultType", "inputRequests", "requestState"];
        let Ok([kind, requests, state]) = result.members(names) else {
            return Ok(ResultKind::Complete);
        };
        match (kind.and_then(Raw::as_text).as_deref(), self) {
            (None | Some("complete"), _) => Ok(ResultKind::Complete),
            (Some(TASK_RESULT_TYPE), Self::Tool { .. }) => Ok(ResultKind::Task),
            (Some("input_required"), _) => {
                let requests = requests
                    .map(Raw::decode)
                    .transpose()
                    .map_err(|_| error::unusable(server, "inputRequests must be an object"))?;
                let requests = requests.unwrap_or_default();
                let questions = read_questions(server, capabilities, requests)?;
                let state = state.and_then(Raw::as_text).map(std::borrow::Cow::into_owned);
                Ok(ResultKind::Required(questions, state))
            }
            _ => Err(error::unusable(server, "the result is of an unknown type")),
        }
    }

    /// Prepares the request. Dropping the future cancels it at the upstream.
    fn request(
        &self,
        client: &Client,
        host: Arc<dyn Host>,
        round: Option<Round>,
        context: Option<&Context>,
    ) -> BoxFuture<'static, Result<OwnedRaw, Error>> {
        let sent = match self {
            Self::Tool { name, arguments, meta } => {
                let request = client.call_tool(name, arguments.clone()).encoded();
                start(request.meta(meta.clone()), host, round, context)
            }
            Self::Prompt { name, arguments, meta } => {
                let params = json!({"name": name, "arguments": arguments});
                let request = client.request(method::PROMPTS_GET, params).encoded();
                start(request.meta(meta.clone()), host, round, context)
            }
            Self::Read { uri, meta, .. } => {
                let request = client.read_resource(uri).encoded();
                start(request.meta(meta.clone()), host, round, context)
            }
        };
        let client = client.clone();
        Box::pin(async move { streams::inline(&client, sent.await?).await })
    }

    /// Replies with a complete result.
    pub(crate) async fn reply(
        &self,
        upstream: &Arc<Upstream>,
        context: &Context,
        result: &OwnedRaw,
    ) -> Outcome {
        match self {
            Self::Tool { .. } => result::reply_tool(context, upstream, result).await,
            Self::Prompt { .. } => result::reply_prompt(context, upstream.name(), result.as_raw()),
            Self::Read { uri, alias, .. } => {
                result::reply_resource(context, upstream, alias, uri, result).await
            }
        }
    }

    /// The upstream's name of the tool that is called.
    fn tool(&self) -> Option<&str> {
        match self {
            Self::Tool { name, .. } => Some(name),
            Self::Prompt { .. } | Self::Read { .. } => None,
        }
    }

    /// Name behind the gateway of what is requested.
    pub(crate) fn target(&self, upstream: &Upstream) -> String {
        match self {
            Self::Tool { name, .. } => {
                naming::join(&upstream.prefix, upstream.settings.served_name(name))
            }
            Self::Prompt { name, .. } => naming::join(&upstream.prefix, name),
            Self::Read { uri, .. } => uri.clone(),
        }
    }

    /// Arguments of the request, for people.
    pub(crate) fn arguments(&self) -> &Value {
        match self {
            Self::Tool { arguments, .. } | Self::Prompt { arguments, .. } => arguments,
            Self::Read { .. } => &Value::Null,
        }
    }

    fn needs_approval(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Tool { name, .. } => upstream.needs_approval(name),
            Self::Prompt { .. } | Self::Read { .. } => false,
        }
    }

    /// Returns whether the request may be sent again if it is not known whether it took effect.
    pub(crate) fn may_run_again(&self, upstream: &Upstream) -> bool {
        match self {
            Self::Tool { name, .. } => upstream.may_run_again(name),
            Self::Prompt { .. } | Self::Read { .. } => true,
        }
    }
}

/// Answers and state of the previous round of a request.
type Round = (Map<String, Value>, Option<String>);

pub(crate) fn start<P: RequestParams>(
    request: Request<P, OwnedRaw>,
    host: Arc<dyn Host>,
    round: Option<Round>,
    context: Option<&Context>,
) -> BoxFuture<'static, Result<OwnedRaw, Error>> {
    let request = request.host(host);
    let request = match round {
        Some((responses, state)) => request.round(responses, state),
        None => request,
    };
    let Some(context) = context.filter(|context| context.wants_progress()) else {
        return request.into_future();
    };
    let (mut running, context) = (request.start(), context.clone());
    Box::pin(async move {
        while let Some(step) = running.next().await {
            context.progress(step.progress, step.total, step.message.as_deref());
        }
        running.await
    })
}

pub(crate) fn failed(upstream: &Upstream, failure: Error) -> RpcError {
    upstream.failed(failure)
}

/// Result of a stateless upstream.
enum ResultKind {
    Complete,
    /// Questions, and the state of the upstream.
    Required(Vec<AskedQuestion>, Option<String>),
    Task,
}

/// Reads questions by their keys.
pub(crate) fn read_questions(
    server: &str,
    capabilities: AskCapabilities,
    requests: Map<String, Value>,
) -> Result<Vec<AskedQuestion>, RpcError> {
    let unusable = |problem: &str| error::unusable(server, problem);
    if requests.is_empty() {
        return Err(unusable("its result requires input, and has no questions"));
    }
    if requests.len() > MAX_QUESTIONS {
        return Err(unusable("it asks too many questions at once"));
    }
    let mut questions = Vec::new();
    for (key, mut request) in requests {
        let method = request["method"].as_str().and_then(known_method);
        let Some(method) = method else { return Err(unusable("it asks an unknown question")) };
        let params = request.get_mut("params").map(Value::take).unwrap_or_else(|| json!({}));
        if capabilities.check(method, &params).is_err() {
            return Err(unusable("it asks what the caller's client cannot answer"));
        }
        let method = method.to_owned();
        questions.push(AskedQuestion { key, method, params, is_approval: false });
    }
    Ok(questions)
}

/// Limit on questions of one call that wait at the same time.
const MAX_QUESTIONS: usize = 16;
