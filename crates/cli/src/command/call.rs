//! `mcp-flow call`: calls a tool and answers its questions.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap_complete::engine::ArgValueCompleter;
use futures_util::StreamExt as _;
use mcp_flow::client::model::{CreateTaskResult, DetailedTask, TASKS_EXTENSION, ToolDefinition};
use mcp_flow::client::{Client, DetachedCall, Error, Host, check_arguments};
use serde_json::{Map, Value, json};

use super::sessions;
use crate::client::approval::{PolicyOptions, guard};
use crate::client::connect::ConnectOptions;
use crate::client::download;
use crate::client::error::explain;
use crate::client::interrupt;
use crate::client::suggestion::did_you_mean;
use crate::client::target::Target;
use crate::client::tool_arguments::ArgumentOptions;
use crate::client::user::TerminalUser;
use crate::command::completions;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::{Reply, UserInput, schema};
use crate::terminal::output::{self, Format, content, sanitize};
use crate::terminal::progress::ProgressDisplay;

/// Call a tool, and answer its questions in the terminal
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow call [OPTIONS] TARGET TOOL [KEY=VALUE]...\n       mcp-flow call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND..."
)]
pub(crate) struct Call {
    /// Server (address or configured name), tool, and arguments of the tool
    #[arg(value_name = "TARGET TOOL KEY=VALUE", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    #[command(flatten)]
    arguments: ArgumentOptions,

    /// JSON file with answers to the tool's questions: an object from key to value
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,

    /// Save images, files and linked resources in this directory
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Do not wait for a call that continues as a task: print the task's id
    ///
    /// `mcp-flow tasks` shows, follows, answers and cancels it.
    #[arg(long)]
    detach: bool,

    /// Accept a result that violates the tool's output schema
    #[arg(long)]
    accept_invalid_output: bool,

    #[command(flatten)]
    policies: PolicyOptions,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Call {
    /// Returns the words of the command line, for completing them.
    pub(crate) fn target_words(&self) -> (&ConnectOptions, &[String]) {
        (&self.connect, &self.words)
    }

    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        self.connect.accept_invalid_output = self.accept_invalid_output;
        let configuration = self.connect.configuration()?;
        let (target, rest) = self.connect.find_target_in(&configuration, &self.words)?;
        let Some((tool, words)) = rest.split_first() else {
            let message = "no tool given; `mcp-flow tools TARGET` lists the tools of a server";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        let progress = match self.connect.format {
            Format::Json => ProgressDisplay::silent(),
            _ => ProgressDisplay::new(),
        };
        let user = TerminalUser::new(UserInput::new(self.answers.as_deref())?, progress);
        let approvals = configuration.approvals(self.connect.target_name(&self.words));
        let policies = self.policies.or(&approvals);
        let detached: Option<Arc<dyn Host>> = match self.detach {
            true => Some(Arc::new(guard(user.clone().detach(), &policies, &configuration.models)?)),
            false => None,
        };
        let guard = guard(user.clone(), &policies, &configuration.models)?;
        let interrupted = || user.prompter.interrupted();
        self.connect.with_client_or(&target, guard, interrupted, async |client| {
            let call = RunningCall { call: &self, client, user: &user, target: &target, detached };
            tokio::select! {
                biased;
                () = user.interrupted.notified() => Err(interrupt::interrupted()),
                ended = call.run(tool, words) => ended,
            }
        })
    }
}

/// A call in progress.
struct RunningCall<'a> {
    call: &'a Call,
    client: &'a Client,
    user: &'a TerminalUser,
    target: &'a Target,
    /// Host of a detached call, which leaves questions to the task.
    detached: Option<Arc<dyn Host>>,
}

impl RunningCall<'_> {
    async fn run(&self, name: &str, words: &[String]) -> anyhow::Result<ExitCode> {
        let mut listed = self.client.tools().all().await.map_err(explain)?;
        let has_marks = listed.iter().any(|tool| tool.meta.contains_key(MARK));
        let tool = listed.swap_remove(find(&listed, name)?);
        let schema = Value::Object(tool.input_schema.clone());
        let mut arguments = self.call.arguments.parse(words, &schema)?;
        let is_flow = tool.meta.get(MARK) == Some(&Value::Bool(true));
        if !self.call.detach
            && (is_flow || (!has_marks && self.may_have_sessions().await?))
            && let Some(end) = self.run_session(&tool, &arguments).await?
        {
            return show_end(&end, self.call.connect.format);
        }
        self.complete(&mut arguments, &schema, is_flow && !self.call.detach).await?;
        check_arguments(&tool, &arguments).map_err(explain)?;
        self.call(&tool, arguments).await
    }

    /// Asks for missing arguments. For a flow whose server has no sessions these are all of them.
    async fn complete(
        &self,
        arguments: &mut Map<String, Value>,
        schema: &Value,
        is_flow: bool,
    ) -> anyhow::Result<()> {
        let questions = schema::questions(schema);
        for question in &questions {
            if !arguments.contains_key(&question.key)
                && let Some(value) = self.user.input.take(&question.key)
            {
                arguments.insert(question.key.clone(), value);
            }
        }
        let missing = schema::missing(schema, arguments);
        if !UserInput::is_interactive() {
            return match missing.is_empty() {
                true => Ok(()),
                false => Err(missing_arguments(&missing).into()),
            };
        }
        for question in questions {
            let is_wanted = is_flow || missing.contains(&question.key);
            if !is_wanted || arguments.contains_key(&question.key) {
                continue;
            }
            let key = question.key.clone();
            match self.user.input.ask(question).await? {
                Reply::Answer(Value::Null) => {}
                Reply::Answer(value) => {
                    arguments.insert(key, value);
                }
                Reply::Interrupted => return Err(interrupt::interrupted()),
                Reply::Declined | Reply::EndOfInput => return Err(missing_arguments(&[key]).into()),
            }
        }
        Ok(())
    }

    /// Returns whether a server that marks no tool as interactive may still have sessions (C-10): it
    /// declares them, or is of a revision without such a declaration.
    async fn may_have_sessions(&self) -> anyhow::Result<bool> {
        let server = self.client.server().await.map_err(explain)?;
        Ok(server.interaction().is_some() || !server.revision.is_stateless())
    }

    /// Runs a session to its end. None if the server or the tool has no sessions: the server's
    /// capabilities are requested first (INT-093), and such a tool is called with all values up front
    /// (INT-099).
    async fn run_session(
        &self,
        tool: &ToolDefinition,
        arguments: &Map<String, Value>,
    ) -> anyhow::Result<Option<Value>> {
        let Some(support) = self.client.interaction_support().await.map_err(explain)? else {
            return Ok(None);
        };
        let mut partial = tool.clone();
        // The session asks for the missing ones.
        partial.input_schema.remove("required");
        check_arguments(&partial, arguments).map_err(explain)?;
        let prompter = &self.user.prompter;
        let connect = &self.call.connect;
        prompter.set_resumption(sessions::resumption(self.target, connect, support.features));
        let ended = self.client.run_supported_flow(&tool.name, arguments.clone()).await;
        ended.transpose().map(|ended| prompter.finish(ended)).transpose()
    }

    async fn call(
        &self,
        tool: &ToolDefinition,
        arguments: Map<String, Value>,
    ) -> anyhow::Result<ExitCode> {
        let arguments = Value::Object(arguments);
        if let Some(host) = &self.detached {
            return match self.detach(tool, &arguments, host).await.map_err(explain)? {
                DetachedCall::Completed(result) => {
                    eprintln!("mcp-flow: the call has ended; there is no task");
                    self.show(&result).await
                }
                DetachedCall::Task(task) => self.show_task(&task),
            };
        }
        let mut running = self.client.call_tool(&tool.name, arguments).raw().start();
        while let Some(progress) = running.next().await {
            self.user.progress.report(&progress);
        }
        self.user.progress.clear();
        let result = running.await.map_err(explain)?;
        self.show(&result).await
    }

    /// Starts a call. A server that supports tasks asks its questions by the task; one that cannot
    /// asks them here.
    async fn detach(
        &self,
        tool: &ToolDefinition,
        arguments: &Value,
        host: &Arc<dyn Host>,
    ) -> Result<DetachedCall<Value>, Error> {
        let request = || self.client.call_tool(&tool.name, arguments.clone()).raw();
        let server = self.client.server().await?;
        if !server.revision.is_stateless()
            || !server.capabilities.extensions.contains_key(TASKS_EXTENSION)
        {
            return request().detach().await;
        }
        match request().host(host.clone()).detach().await {
            // Refused before any work.
            Err(Error::Server(error)) if error.code == MISSING_CLIENT_CAPABILITY => {
                request().detach().await
            }
            detached => detached,
        }
    }

    /// Prints the id of a task, and how to follow it.
    fn show_task(&self, task: &DetailedTask) -> anyhow::Result<ExitCode> {
        match self.call.connect.format {
            Format::Json => output::print_json(&json!(CreateTaskResult::from(task)))?,
            _ => {
                let id = sanitize(&task.task_id);
                output::print(&id)?;
                if let Target::Address(address) = self.target {
                    let url = sanitize(&address.url);
                    eprintln!("Follow it with\n  mcp-flow tasks watch {url} {id}");
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn show(&self, result: &Value) -> anyhow::Result<ExitCode> {
        let pieces = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_failed = result["isError"] == true;
        if let Some(folder) = self.call.output.as_deref().filter(|_| !has_failed) {
            let saving = download::pieces(pieces);
            let saved = download::save(self.client, saving, folder, &self.user.progress).await?;
            for path in saved {
                eprintln!("saved {}", path.display());
            }
        }
        match self.call.connect.format {
            Format::Json => output::print_json(result)?,
            _ if has_failed => {
                let text = content::text(pieces);
                let message = result["errorMessage"].as_str().map(sanitize);
                let text = if text.is_empty() { message.unwrap_or_default() } else { text };
                eprintln!("mcp-flow: the tool failed: {text}");
            }
            _ if self.call.output.is_some() => {
                // Saved content was listed above.
                let rest = pieces.iter().filter(|piece| !content::is_linked(piece)).cloned();
                let rest: Vec<_> = rest.collect();
                if !rest.is_empty() || pieces.is_empty() {
                    output::print(&result_text(result, &rest))?;
                }
            }
            _ => output::print(&result_text(result, pieces))?,
        }
        Ok(if has_failed { Exit::Failed.into() } else { ExitCode::SUCCESS })
    }
}

/// Finds a tool by its name, with dots or underscores.
fn find(listed: &[ToolDefinition], name: &str) -> Result<usize, Failure> {
    let exact = listed.iter().position(|tool| tool.name == name);
    let underscored = || listed.iter().position(|tool| tool.name.replace('.', "_") == name);
    exact.or_else(underscored).ok_or_else(|| {
        let names = listed.iter().map(|tool| tool.name.as_str());
        let hint = did_you_mean(name, names, "`mcp-flow tools TARGET` lists its tools");
        Failure::new(Exit::Usage, format!("the server has no tool {name:?}. {hint}"))
    })
}

/// Key of `_meta` by which our servers mark flows.
const MARK: &str = "interactive";

/// Error code for a call that needs a capability of the client.
const MISSING_CLIENT_CAPABILITY: i64 = -32021;

/// Formats a result for people: its content, or else its data.
fn result_text(result: &Value, pieces: &[Value]) -> String {
    match (pieces.is_empty(), result.get("structuredContent")) {
        (true, Some(data)) => sanitize(&format!("{data:#}")),
        _ => content::text(pieces),
    }
}

/// Shows the end of a session: `{sessionId, result: {success, data}, summary}`.
pub(crate) fn show_end(end: &Value, format: Format) -> anyhow::Result<ExitCode> {
    let is_success = end["result"]["success"] == true;
    let summary = end["summary"].as_str().map(sanitize).unwrap_or_default();
    match format {
        Format::Json => output::print_json(end)?,
        _ if !is_success => eprintln!("mcp-flow: {summary}"),
        _ => {
            eprintln!("{summary}");
            output::print(&data_text(&end["result"]["data"]))?;
        }
    }
    Ok(if is_success { ExitCode::SUCCESS } else { Exit::Failed.into() })
}

/// Formats the result of a flow. A value that is no object is the only member `value` of one.
fn data_text(data: &Value) -> String {
    let only = data.as_object().filter(|members| members.len() == 1);
    match only.and_then(|members| members.get("value")) {
        Some(Value::String(text)) => sanitize(text),
        Some(value) => sanitize(&format!("{value:#}")),
        None => sanitize(&format!("{data:#}")),
    }
}

fn missing_arguments(names: &[String]) -> Failure {
    let names: Vec<_> = names.iter().map(|name| sanitize(name)).collect();
    let s = if names.len() == 1 { "" } else { "s" };
    let all: Vec<_> = names.iter().map(|name| format!("{name}=VALUE")).collect();
    let message = format!("missing argument{s} {}; add {}", names.join(", "), all.join(" "));
    Failure::new(Exit::Usage, message)
}
