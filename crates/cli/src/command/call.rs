//! `mcp-flow call`: call a tool, and answer what it asks.

use std::path::PathBuf;
use std::process::ExitCode;

use futures_util::StreamExt as _;
use mcp_flow::client::model::ToolDefinition;
use mcp_flow::client::{Client, check_arguments};
use serde_json::{Map, Value};

use super::sessions;
use crate::approval::{Chosen, guard};
use crate::ask::{Asked, Asker, schema};
use crate::configuration::nearest;
use crate::download;
use crate::exit::{Exit, Failure};
use crate::fault::explain;
use crate::given::Given;
use crate::host::Person;
use crate::interrupt::interrupted;
use crate::meter::Meter;
use crate::reach::Reach;
use crate::show::{self, Format, content, neutral};
use crate::target::Target;

/// Call a tool; a flow asks its questions here
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow call [OPTIONS] TARGET TOOL [KEY=VALUE]...\n       mcp-flow call [OPTIONS] TOOL [KEY=VALUE]... -- COMMAND..."
)]
pub(crate) struct Call {
    /// The server, the tool, and its arguments, typed by the tool's schema
    #[arg(value_name = "TARGET TOOL KEY=VALUE")]
    words: Vec<String>,

    #[command(flatten)]
    given: Given,

    /// Answers to what is asked, as a JSON object from key to value
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,

    /// Save images, files and everything that is linked to in this folder
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    #[command(flatten)]
    chosen: Chosen,

    #[command(flatten)]
    reach: Reach,
}

impl Call {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let configuration = self.reach.configuration()?;
        let (target, rest) = self.reach.find_in(&configuration, &self.words)?;
        let Some((tool, words)) = rest.split_first() else {
            let message = "no tool is named; `mcp-flow tools TARGET` lists what there is";
            return Err(Failure::new(Exit::Usage, message).into());
        };
        let meter = match self.reach.format {
            Format::Json => Meter::silent(),
            _ => Meter::new(),
        };
        let person = Person::new(Asker::new(self.answers.as_deref())?, meter);
        let approvals = configuration.approvals(self.reach.name(&self.words));
        let guard = guard(person.clone(), &self.chosen.or(&approvals), &configuration.models)?;
        let left = || person.talk.interrupted();
        self.reach.with_client_or(&target, guard, left, async |client| {
            let call = Calling { call: &self, client, person: &person, target: &target };
            tokio::select! {
                biased;
                () = person.interrupted.notified() => Err(interrupted()),
                ended = call.run(tool, words) => ended,
            }
        })
    }
}

/// One call under way.
struct Calling<'a> {
    call: &'a Call,
    client: &'a Client,
    person: &'a Person,
    target: &'a Target,
}

impl Calling<'_> {
    async fn run(&self, name: &str, words: &[String]) -> anyhow::Result<ExitCode> {
        let mut listed = self.client.tools().all().await.map_err(explain)?;
        let are_marked = listed.iter().any(|tool| tool.meta.contains_key(MARK));
        let tool = listed.swap_remove(find(&listed, name)?);
        let schema = Value::Object(tool.input_schema.clone());
        let mut arguments = self.call.given.read(words, &schema)?;
        let is_flow = tool.meta.get(MARK) == Some(&Value::Bool(true));
        if (is_flow || (!are_marked && self.may_converse().await?))
            && let Some(end) = self.converse(&tool, &arguments).await?
        {
            return show_end(&end, self.call.reach.format);
        }
        self.complete(&mut arguments, &schema, is_flow).await?;
        check_arguments(&tool, &arguments).map_err(explain)?;
        self.call(&tool, arguments).await
    }

    /// Asks for what is missing. All that a flow would ask is asked beforehand where its server
    /// cannot hold a conversation.
    async fn complete(
        &self,
        arguments: &mut Map<String, Value>,
        schema: &Value,
        is_flow: bool,
    ) -> anyhow::Result<()> {
        let questions = schema::questions(schema);
        for question in &questions {
            if !arguments.contains_key(&question.key)
                && let Some(value) = self.person.asker.take(&question.key)
            {
                arguments.insert(question.key.clone(), value);
            }
        }
        let missing = schema::missing(schema, arguments);
        if !Asker::is_interactive() {
            return match missing.is_empty() {
                true => Ok(()),
                false => Err(lacking(&missing).into()),
            };
        }
        for question in questions {
            let is_wanted = is_flow || missing.contains(&question.key);
            if !is_wanted || arguments.contains_key(&question.key) {
                continue;
            }
            let key = question.key.clone();
            match self.person.asker.ask(question).await? {
                Asked::Answer(Value::Null) => {}
                Asked::Answer(value) => {
                    arguments.insert(key, value);
                }
                Asked::Interrupted => return Err(interrupted()),
                Asked::Declined | Asked::NoMore => return Err(lacking(&[key]).into()),
            }
        }
        Ok(())
    }

    /// Whether a server that marks no tool may hold conversations with some (C-10): it declares so,
    /// or was made before there was a place to declare it.
    async fn may_converse(&self) -> anyhow::Result<bool> {
        let server = self.client.server().await.map_err(explain)?;
        Ok(server.interaction().is_some() || !server.revision.is_stateless())
    }

    /// Holds a conversation and gives its end. None if there is nobody to hold it with: what the
    /// server can do is asked before the first one is begun (INT-093), and a tool that holds none is
    /// called with everything upfront (INT-099).
    async fn converse(
        &self,
        tool: &ToolDefinition,
        arguments: &Map<String, Value>,
    ) -> anyhow::Result<Option<Value>> {
        let Some(support) = self.client.interaction_support().await.map_err(explain)? else {
            return Ok(None);
        };
        let mut partial = tool.clone();
        // What is not given will be asked for.
        partial.input_schema.remove("required");
        check_arguments(&partial, arguments).map_err(explain)?;
        let talk = &self.person.talk;
        let trust = &self.call.reach.trust;
        talk.set_resumption(sessions::resumption(self.target, trust, support.features));
        let held = self.client.converse_supported(&tool.name, arguments.clone()).await;
        held.transpose().map(|held| talk.ended(held)).transpose()
    }

    async fn call(
        &self,
        tool: &ToolDefinition,
        arguments: Map<String, Value>,
    ) -> anyhow::Result<ExitCode> {
        let request = self.client.call_tool(&tool.name, Value::Object(arguments));
        let mut running = request.raw().start();
        while let Some(progress) = running.next().await {
            self.person.meter.report(&progress);
        }
        self.person.meter.clear();
        let result = running.await.map_err(explain)?;
        self.show(&result).await
    }

    async fn show(&self, result: &Value) -> anyhow::Result<ExitCode> {
        let pieces = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_failed = result["isError"] == true;
        if let Some(folder) = self.call.output.as_deref().filter(|_| !has_failed) {
            let saving = download::pieces(pieces);
            let saved = download::save(self.client, saving, folder, &self.person.meter).await?;
            for path in saved {
                eprintln!("saved {}", path.display());
            }
        }
        match self.call.reach.format {
            Format::Json => show::print_json(result)?,
            _ if has_failed => {
                let said = content::text(pieces);
                let message = result["errorMessage"].as_str().map(neutral);
                let said = if said.is_empty() { message.unwrap_or_default() } else { said };
                eprintln!("mcp-flow: the tool failed: {said}");
            }
            _ if self.call.output.is_some() => {
                // What was saved has been told already.
                let rest = pieces.iter().filter(|piece| !content::is_elsewhere(piece)).cloned();
                let rest: Vec<_> = rest.collect();
                if !rest.is_empty() || pieces.is_empty() {
                    show::print(&readable(result, &rest))?;
                }
            }
            _ => show::print(&readable(result, pieces))?,
        }
        Ok(if has_failed { Exit::Failed.into() } else { ExitCode::SUCCESS })
    }
}

/// Where the tool of this name is listed; servers of ours know dots and underscores for the same.
fn find(listed: &[ToolDefinition], name: &str) -> Result<usize, Failure> {
    let exact = listed.iter().position(|tool| tool.name == name);
    let spelled = || listed.iter().position(|tool| tool.name.replace('.', "_") == name);
    exact.or_else(spelled).ok_or_else(|| {
        let names: Vec<_> = listed.iter().map(|tool| tool.name.as_str()).collect();
        let alike = names.iter().copied().find(|known| is_alike(known, name));
        let hint = match alike.or_else(|| nearest(name, &names)) {
            Some(known) => format!("Did you mean {}?", neutral(known)),
            None => "`mcp-flow tools TARGET` lists what there is".to_owned(),
        };
        Failure::new(Exit::Usage, format!("the server has no tool {name:?}. {hint}"))
    })
}

/// What our servers mark flows with, in `_meta`; others have no mark for them.
const MARK: &str = "interactive";

/// A result for people: its content, or else its data.
fn readable(result: &Value, pieces: &[Value]) -> String {
    match (pieces.is_empty(), result.get("structuredContent")) {
        (true, Some(data)) => neutral(&format!("{data:#}")),
        _ => content::text(pieces),
    }
}

/// The end of a conversation: `{sessionId, result: {success, data}, summary}`.
pub(crate) fn show_end(end: &Value, format: Format) -> anyhow::Result<ExitCode> {
    let is_success = end["result"]["success"] == true;
    let summary = end["summary"].as_str().map(neutral).unwrap_or_default();
    match format {
        Format::Json => show::print_json(end)?,
        _ if !is_success => eprintln!("mcp-flow: {summary}"),
        _ => {
            eprintln!("{summary}");
            show::print(&readable_data(&end["result"]["data"]))?;
        }
    }
    Ok(if is_success { ExitCode::SUCCESS } else { Exit::Failed.into() })
}

/// What a flow returned. What is no object travels in one, as its only member `value`.
fn readable_data(data: &Value) -> String {
    let only = data.as_object().filter(|members| members.len() == 1);
    match only.and_then(|members| members.get("value")) {
        Some(Value::String(text)) => neutral(text),
        Some(value) => neutral(&format!("{value:#}")),
        None => neutral(&format!("{data:#}")),
    }
}

fn lacking(names: &[String]) -> Failure {
    let names: Vec<_> = names.iter().map(|name| neutral(name)).collect();
    let s = if names.len() == 1 { "" } else { "s" };
    let all: Vec<_> = names.iter().map(|name| format!("{name}=VALUE")).collect();
    let message = format!("missing argument{s} {}; add {}", names.join(", "), all.join(" "));
    Failure::new(Exit::Usage, message)
}

/// Whether a name was meant that is spelled a little differently.
fn is_alike(known: &str, typed: &str) -> bool {
    let plain = |name: &str| -> String {
        name.chars()
            .filter(|character| character.is_alphanumeric())
            .collect::<String>()
            .to_lowercase()
    };
    let (known, typed) = (plain(known), plain(typed));
    known == typed || (typed.len() > 3 && (known.ends_with(&typed) || known.starts_with(&typed)))
}
