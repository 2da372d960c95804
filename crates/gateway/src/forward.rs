//! Forwarding of one request to an upstream, and its reply.
//!
//! Most requests are sent, and their result is the reply. If the upstream asks something, or a person
//! has to approve the call first, the rest of the call is a session: `session` has it in the journal,
//! and `follow` asks the caller.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use mcp_flow_client::{Client, Error, Host, Request, RequestParams};
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
use crate::upstream::Upstream;

/// A request that is forwarded, by the names of the upstream.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Forwarded {
    Tool { name: String, arguments: Value },
    Prompt { name: String, arguments: Value },
    Read { uri: String },
}

/// Progress of a request that was sent.
pub(crate) enum Progress {
    Result(OwnedRaw),
    /// A stateless upstream asks, and expects the next round with this state.
    Asked(Vec<AskedQuestion>, Option<String>),
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
        let outcome = self.outcome(&upstream, &sessions, &context).await;
        if let Err(error) = &outcome
            && error.has("server")
        {
            upstream.metrics.record_error(error);
        }
        outcome
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
        let lease = upstream.lease(&requester.caller).await?;
        if lease.revision().is_stateless() {
            return self.send_round_on(upstream, requester, &lease, Map::new(), None).await;
        }
        let (sender, questions) = mpsc::channel(MAX_QUESTIONS);
        let Requester { capabilities, context, .. } = requester;
        let host = Arc::new(CallHost::for_call(context.clone(), *capabilities, sender));
        let sent = self.request(lease.client(), host, None, context.as_ref());
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
        state: Option<String>,
    ) -> Result<Progress, RpcError> {
        let lease = upstream.lease(&requester.caller).await?;
        if !lease.revision().is_stateless() {
            let what = "it no longer supports the revision in which it asked";
            return Err(error::lost(upstream.name(), what));
        }
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
        let host = Arc::new(CallHost::for_round(context.clone(), *capabilities));
        let round = Some((answers, state));
        let sent = self.request(lease.client(), host, round, context.as_ref());
        let result = sent.await.map_err(|error| failed(upstream, error))?;
        match read_required(upstream.name(), *capabilities, result.as_raw())? {
            Some((questions, state)) => Ok(Progress::Asked(questions, state)),
            None => Ok(Progress::Result(result)),
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
        match self {
            Self::Tool { name, arguments } => {
                let request = client.call_tool(name, arguments.clone()).encoded();
                start(request, host, round, context)
            }
            Self::Prompt { name, arguments } => {
                let params = json!({"name": name, "arguments": arguments});
                let request = client.request(method::PROMPTS_GET, params).encoded();
                start(request, host, round, context)
            }
            Self::Read { uri } => start(client.read_resource(uri).encoded(), host, round, context),
        }
    }

    /// Replies with a complete result.
    pub(crate) async fn reply(
        &self,
        upstream: &Upstream,
        context: &Context,
        result: &OwnedRaw,
    ) -> Outcome {
        match self {
            Self::Tool { .. } => result::reply_tool(context, upstream, result.as_raw()),
            Self::Prompt { .. } => result::reply_prompt(context, upstream.name(), result.as_raw()),
            Self::Read { uri } => {
                result::reply_resource(context, upstream.name(), uri, result).await
            }
        }
    }

    /// Name behind the gateway of what is requested.
    pub(crate) fn target(&self, upstream: &Upstream) -> String {
        match self {
            Self::Tool { name, .. } => {
                naming::join(&upstream.prefix, upstream.settings.served_name(name))
            }
            Self::Prompt { name, .. } => naming::join(&upstream.prefix, name),
            Self::Read { uri } => uri.clone(),
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

fn start<P: RequestParams>(
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
    error::from_client(upstream.name(), failure)
}

/// Questions of a stateless upstream, and its state.
type Required = (Vec<AskedQuestion>, Option<String>);

/// Reads a result that requires input; `None` for a complete one.
fn read_required(
    server: &str,
    capabilities: AskCapabilities,
    result: Raw<'_>,
) -> Result<Option<Required>, RpcError> {
    let unusable = |problem: &str| error::unusable(server, problem);
    let names = ["resultType", "inputRequests", "requestState"];
    let Ok([kind, requests, state]) = result.members(names) else { return Ok(None) };
    match kind.and_then(Raw::as_text).as_deref() {
        None | Some("complete") => return Ok(None),
        Some("input_required") => {}
        Some("task") => {
            let what = "it continues the call as a task, which this gateway cannot follow";
            return Err(unusable(what));
        }
        Some(_) => return Err(unusable("the result is of an unknown type")),
    }
    let requests: Map<String, Value> = match requests.map(Raw::decode).transpose() {
        Ok(requests) => requests.unwrap_or_default(),
        Err(_) => return Err(unusable("inputRequests must be an object")),
    };
    if requests.is_empty() {
        return Err(unusable("it requires input, and asks nothing"));
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
    let state = state.and_then(Raw::as_text).map(std::borrow::Cow::into_owned);
    Ok(Some((questions, state)))
}

/// Limit on questions of one call that wait at the same time.
const MAX_QUESTIONS: usize = 16;
