//! Tools and prompts of upstreams, registered with the server under prefixed names.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcp_flow_client::{CompletionReference, sanitize};
use mcp_flow_proto::model::{PromptDefinition, ToolDefinition};
use mcp_flow_proto::{Raw, RpcError};
use mcp_flow_server::completion::Completion;
use mcp_flow_server::prompt::ForwardPrompt;
use mcp_flow_server::{Context, Prompt, Reply, Server, Tool};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::definitions::Definitions;
use crate::forward::Forwarded;
use crate::isolation::Caller;
use crate::naming;
use crate::session::Sessions;
use crate::upstream::Upstream;

/// Tools and prompts that are registered, by upstream.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names in use by all upstreams, as [`naming::alias`] forms them; of prompts, as well.
    tool_names: HashSet<String>,
    prompt_names: HashSet<String>,
    upstreams: HashMap<String, Registered>,
}

/// Registrations of one upstream: the name behind the gateway, and the definition.
#[derive(Debug, Default)]
struct Registered {
    tools: Vec<(String, ToolDefinition)>,
    prompts: Vec<(String, PromptDefinition)>,
}

impl Registrations {
    /// Registers what an upstream lists now, and removes what it no longer lists. Definitions that
    /// have not changed stay as they are.
    pub(crate) fn update(
        &self,
        server: &Server,
        upstream: &Arc<Upstream>,
        sessions: &Arc<Sessions>,
        listed: &Definitions,
    ) {
        let mut state = self.state.lock();
        let State { tool_names, prompt_names, upstreams } = &mut *state;
        let registered = upstreams.entry(upstream.name().to_owned()).or_default();
        registered.tools.retain(|(name, definition)| {
            let stays = listed.tools.contains(definition);
            if !stays {
                server.remove_tool(name);
                tool_names.remove(&naming::alias(name));
            }
            stays
        });
        for definition in &listed.tools {
            if registered.tools.iter().any(|(_, known)| known == definition) {
                continue;
            }
            let given = upstream.settings.served_name(&definition.name);
            let name = assign(upstream, given, tool_names);
            let tool = forwarded_tool(upstream, sessions, &name, definition);
            let added = tool
                .map_err(|error| error.to_string())
                .and_then(|tool| server.add_tools(vec![tool]).map_err(|error| error.to_string()));
            match added {
                Ok(()) => registered.tools.push((name, definition.clone())),
                Err(problem) => {
                    tool_names.remove(&naming::alias(&name));
                    log_skipped(upstream, &definition.name, &problem);
                }
            }
        }
        registered.prompts.retain(|(name, definition)| {
            let stays = listed.prompts.contains(definition);
            if !stays {
                server.remove_prompt(name);
                prompt_names.remove(&naming::alias(name));
            }
            stays
        });
        for definition in &listed.prompts {
            if registered.prompts.iter().any(|(_, known)| known == definition) {
                continue;
            }
            let name = assign(upstream, &definition.name, prompt_names);
            let prompt = forwarded_prompt(upstream, sessions, &name, definition);
            let added = prompt.map_err(|error| error.to_string()).and_then(|prompt| {
                server.add_prompts(vec![prompt]).map_err(|error| error.to_string())
            });
            match added {
                Ok(()) => registered.prompts.push((name, definition.clone())),
                Err(problem) => {
                    prompt_names.remove(&naming::alias(&name));
                    log_skipped(upstream, &definition.name, &problem);
                }
            }
        }
    }

    /// Names of all tools that are registered.
    pub(crate) fn tools(&self) -> Vec<String> {
        let state = self.state.lock();
        let tools = state.upstreams.values().flat_map(|registered| &registered.tools);
        tools.map(|(name, _)| name.clone()).collect()
    }

    /// Removes everything that an upstream has registered.
    pub(crate) fn remove(&self, server: &Server, upstream: &str) {
        let mut state = self.state.lock();
        let Some(registered) = state.upstreams.remove(upstream) else { return };
        for (name, _) in registered.tools {
            server.remove_tool(&name);
            state.tool_names.remove(&naming::alias(&name));
        }
        for (name, _) in registered.prompts {
            server.remove_prompt(&name);
            state.prompt_names.remove(&naming::alias(&name));
        }
    }
}

/// Assigns a name, and logs it if it differs from the upstream's.
fn assign(upstream: &Upstream, given: &str, used: &mut HashSet<String>) -> String {
    let name = naming::assign(&upstream.prefix, given, used);
    let own = name.strip_prefix(&upstream.prefix).unwrap_or(&name);
    if own.strip_prefix('.').filter(|_| !upstream.prefix.is_empty()).unwrap_or(own) != given {
        let given = sanitize::shorten(given, 128);
        tracing::warn!(server = upstream.name(), "{given:?} is served as {name}");
    }
    name
}

fn log_skipped(upstream: &Upstream, name: &str, problem: &str) {
    let (name, problem) = (sanitize::shorten(name, 128), sanitize::shorten(problem, 500));
    tracing::warn!(server = upstream.name(), "{name:?} is not served: {problem}");
}

fn forwarded_tool(
    upstream: &Arc<Upstream>,
    sessions: &Arc<Sessions>,
    name: &str,
    definition: &ToolDefinition,
) -> Result<Tool, mcp_flow_server::BadTool> {
    let (upstream, sessions) = (upstream.clone(), sessions.clone());
    let own_name = definition.name.clone();
    let mut definition = ToolDefinition { name: name.to_owned(), ..definition.clone() };
    // Without prefix there is one server, which may be a gateway that has set this itself.
    if !upstream.prefix.is_empty() {
        definition.meta.insert(UPSTREAM.to_owned(), upstream.prefix.clone().into());
    }
    Tool::forwarded(definition, move |context, arguments| match decode(arguments) {
        Ok(arguments) => {
            let meta = context.meta().clone();
            let call = Forwarded::Tool { name: own_name.clone(), arguments, meta };
            let (upstream, context) = (upstream.clone(), context.clone());
            let noted = (upstream.url_questions.clone(), context.clone());
            let called = call.run(upstream, sessions.clone(), context);
            Reply::Later(Box::pin(async move {
                let outcome = called.await;
                if let Err(error) = &outcome {
                    noted.0.note_required(error, &noted.1);
                }
                outcome
            }))
        }
        Err(error) => Reply::Ready(Err(error)),
    })
}

fn forwarded_prompt(
    upstream: &Arc<Upstream>,
    sessions: &Arc<Sessions>,
    name: &str,
    definition: &PromptDefinition,
) -> Result<Prompt, mcp_flow_server::BadPrompt> {
    let own_name = definition.name.clone();
    let forward =
        UpstreamPrompt { upstream: upstream.clone(), sessions: sessions.clone(), name: own_name };
    let definition = PromptDefinition { name: name.to_owned(), ..definition.clone() };
    Prompt::forwarded(definition, forward)
}

/// A prompt of an upstream.
struct UpstreamPrompt {
    upstream: Arc<Upstream>,
    sessions: Arc<Sessions>,
    name: String,
}

impl ForwardPrompt for UpstreamPrompt {
    fn get(&self, context: &Context, arguments: Raw<'_>) -> Reply {
        match decode(arguments) {
            Ok(arguments) => {
                let meta = context.meta().clone();
                let request = Forwarded::Prompt { name: self.name.clone(), arguments, meta };
                let (upstream, sessions) = (self.upstream.clone(), self.sessions.clone());
                Reply::Later(Box::pin(request.run(upstream, sessions, context.clone())))
            }
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    fn complete(&self, context: &Context, argument: &str, value: &str, others: Raw<'_>) -> Reply {
        let reference = CompletionReference::Prompt(self.name.clone());
        complete(&self.upstream, context, reference, argument, value, others)
    }
}

/// Forwards a completion.
pub(crate) fn complete(
    upstream: &Arc<Upstream>,
    context: &Context,
    reference: CompletionReference,
    argument: &str,
    value: &str,
    others: Raw<'_>,
) -> Reply {
    let others: Map<String, Value> = match others.decode() {
        Ok(others) => others,
        Err(error) => return Reply::Ready(Err(RpcError::invalid_params(error.to_string()))),
    };
    let (upstream, context) = (upstream.clone(), context.clone());
    let (argument, value) = (argument.to_owned(), value.to_owned());
    Reply::Later(Box::pin(async move {
        let found = request_completion(&upstream, &context, &reference, &argument, &value, others);
        context.reply_completion(&found.await?)
    }))
}

async fn request_completion(
    upstream: &Arc<Upstream>,
    context: &Context,
    reference: &CompletionReference,
    argument: &str,
    value: &str,
    others: Map<String, Value>,
) -> Result<Completion, RpcError> {
    let lease = upstream.lease(&Caller::of(context).unasked(), None).await?;
    // A server without completions suggests nothing.
    if lease.server.capabilities.completions.is_none() {
        return Ok(Completion::default());
    }
    let found = lease.client().complete(reference, argument, value, others).await;
    let found = found.map_err(|failure| upstream.failed(failure))?;
    let known = found.values.len() as u64;
    let more = if found.has_more { known.saturating_add(1) } else { known };
    let total = found.total.unwrap_or_default().max(more);
    Ok(Completion::from(found.values).of(total))
}

/// `_meta` key of a tool with the prefix of its server. Hosts show an app only the tools of its server.
const UPSTREAM: &str = "mcp-flow/upstream";

/// Decodes arguments, which are an object.
fn decode(arguments: Raw<'_>) -> Result<Value, RpcError> {
    arguments.decode().map_err(|error| RpcError::invalid_params(error.to_string()))
}
