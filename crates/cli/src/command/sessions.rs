//! `mcp-flow sessions`: lists, shows, answers, rewinds, cancels, exports and imports sessions.

mod search;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use chrono::DateTime;
use clap::Subcommand;
use mcp_flow::client::interaction::InteractionFeatures;
use serde_json::{Value, json};

use self::search::Search;
use crate::client::connect::ConnectOptions;
use crate::client::prompter::{Prompter, Resumption};
use crate::client::session_source::{DEFAULT_URL, SessionSource, SessionSourceOptions};
use crate::client::target::{Spawn, Target};
use crate::client::timeline::Timeline;
use crate::command::history::{Position, show_differences};
use crate::exit::Exit;
use crate::server::store::StoreUrl;
use crate::terminal::ask::UserInput;
use crate::terminal::output::{self, Format, sanitize, table};
use crate::terminal::progress::ProgressDisplay;

/// List, show, compare, answer, rewind, cancel, export and import sessions of a running server or in a store
#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    #[command(flatten)]
    source: SessionSourceOptions,

    #[command(subcommand)]
    action: Action,
}

/// Actions on sessions.
#[derive(Debug, Subcommand)]
enum Action {
    /// List all sessions, or those that fit
    List(#[command(flatten)] Search),
    /// Show a session's questions, answers and result
    Show {
        /// Session id
        id: String,
    },
    /// Show a session's journal, with its state and data after each event
    ///
    /// An ended session has only its end left: export the history before, to keep it.
    History {
        /// Session id
        id: String,
        #[command(flatten)]
        position: Position,
        /// Write the history to this file, for `mcp-flow history`
        #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "step"])]
        export: Option<PathBuf>,
    },
    /// Write a session's history to a file, to import it elsewhere
    ///
    /// Values are not encrypted in it. `mcp-flow history` shows it without a server.
    Export {
        /// Session id
        id: String,
        /// File to write [default: standard output]
        file: Option<PathBuf>,
    },
    /// Add a session from its exported history, for the owner it has
    ///
    /// It goes on where it was, and steps that have run do not run again. An edited history is rejected. A
    /// running server imports for admins only.
    Import {
        /// Exported history
        file: PathBuf,
        /// Give the session a new id, to import it beside the one it was exported from
        #[arg(long)]
        new_id: bool,
    },
    /// Show how two sessions differ; exits with 1 if they do
    Diff {
        /// Session id
        id: String,
        /// Id of the other session
        other: String,
    },
    /// Answer a session's pending question
    Answer {
        /// Session id
        id: String,
        /// Answer: JSON or plain text [default: ask in the terminal until the session ends]
        value: Option<String>,
    },
    /// Change an earlier answer: go on from its question, as if nothing had happened since
    ///
    /// Not if a step with effects has run since, which the error names.
    Rewind {
        /// Session id
        id: String,
        /// Key of the question to ask again, as `sessions history` shows it
        #[arg(long, value_name = "KEY")]
        to: String,
    },
    /// Cancel a session
    Cancel {
        /// Session id
        id: String,
        /// Reason, shown to the client
        #[arg(long)]
        reason: Option<String>,
    },
}

impl Sessions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let resumption = Resumption::Command(self.source.command_line(ANSWER));
        let prompter = Prompter::new(UserInput::default(), ProgressDisplay::new(), resumption);
        let open = async |options: &SessionSourceOptions| options.open_or_server(&prompter).await;
        let work = async |source: &SessionSource| self.act(source, &prompter).await;
        self.source.run(open, self.interrupted(), work)
    }

    /// Returns the message for ctrl-c: what may have happened already.
    fn interrupted(&self) -> &'static str {
        match &self.action {
            Action::List(_)
            | Action::Show { .. }
            | Action::History { .. }
            | Action::Export { .. }
            | Action::Diff { .. } => "interrupted",
            Action::Import { .. } => {
                "interrupted; the session may have been imported: see `mcp-flow sessions list`"
            }
            Action::Answer { value: None, .. } => {
                "interrupted; the session keeps waiting for an answer"
            }
            Action::Answer { value: Some(_), .. } => {
                "interrupted; the answer may have been accepted: see `mcp-flow sessions show`"
            }
            Action::Rewind { .. } => {
                "interrupted; the session may have been rewound: see `mcp-flow sessions show`"
            }
            Action::Cancel { .. } => {
                "interrupted; the session may have been cancelled: see `mcp-flow sessions show`"
            }
        }
    }

    async fn act(&self, source: &SessionSource, prompter: &Prompter) -> anyhow::Result<ExitCode> {
        if let Action::Answer { id, value: None } = &self.action {
            let end = source.resume(prompter, id).await?;
            return super::call::show_end(&end, self.source.format);
        }
        match &self.action {
            Action::History { id, position, export } => {
                let history = history(source, id).await?;
                let Some(file) = export else {
                    return position.show(&timeline(&history)?, self.source.format);
                };
                return write(file, &history);
            }
            Action::Export { id, file } => {
                let history = source.call(id, "interaction.getHistory", json!({})).await?;
                return match file {
                    Some(file) => write(file, &history),
                    None => output::print_json(&history).map(|()| ExitCode::SUCCESS),
                };
            }
            Action::Diff { id, other } => {
                let (one, other) = (history(source, id).await?, history(source, other).await?);
                return show_differences(&timeline(&one)?, &timeline(&other)?);
            }
            _ => {}
        }
        let (result, text) = self.result(source).await?;
        match self.source.format {
            Format::Json => output::print_json(&result)?,
            _ => output::print(&text)?,
        }
        let is_rejected = result["accepted"] == false;
        Ok(if is_rejected { Exit::Failed.into() } else { ExitCode::SUCCESS })
    }

    /// Returns the result as JSON and as text.
    async fn result(&self, source: &SessionSource) -> anyhow::Result<(Value, String)> {
        match &self.action {
            Action::List(search) => {
                let sessions = source.list(search.params(), search.needs_admin()).await?;
                let text = list_text(&sessions, self.source.format);
                Ok((json!({"sessions": sessions}), text))
            }
            Action::Show { id } => {
                let state = source.call(id, "interaction.getState", json!({})).await?;
                let text = state_text(&state);
                Ok((state, text))
            }
            Action::Answer { id, value } => {
                let result = answer(source, id, value.as_deref().unwrap_or_default()).await?;
                let text = match source.is_left_to_server(id) {
                    true => "Accepted. The session continues when its server runs.".to_owned(),
                    false => answer_text(&result),
                };
                Ok((result, text))
            }
            Action::Rewind { id, to } => {
                let result = source.call(id, "interaction.rewind", json!({"to": to})).await?;
                let next = result["next"]["prompt"]["message"].as_str();
                let next = next.map(|message| format!(". Next: {}", sanitize(message)));
                let text = format!("session {id} rewound{}", next.unwrap_or_default());
                Ok((result, text))
            }
            Action::Cancel { id, reason } => {
                let params = json!({"reason": reason});
                let result = source.call(id, "interaction.cancel", params).await?;
                Ok((result, format!("session {id} cancelled")))
            }
            Action::Import { file, new_id } => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("cannot read {}", file.display()))?;
                let history: Value = serde_json::from_str(&text)
                    .with_context(|| format!("{} is no exported history", file.display()))?;
                let result = source.import(history, *new_id).await?;
                let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
                let line = format!("session {} imported: {}", text("sessionId"), text("state"));
                Ok((result, sanitize(&line)))
            }
            Action::History { .. } | Action::Export { .. } | Action::Diff { .. } => {
                unreachable!("shown before")
            }
        }
    }
}

fn write(file: &Path, history: &Value) -> anyhow::Result<ExitCode> {
    let written = std::fs::write(file, format!("{history}\n"));
    written.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the journal of a session, with the traffic about it, if the server shows that.
async fn history(source: &SessionSource, id: &str) -> anyhow::Result<Value> {
    let mut history = source.call(id, "interaction.getHistory", json!({})).await?;
    // Only admins see traffic, and only what was recorded.
    if let Ok(mut seen) = source.request("admin/traffic", json!({"contains": id})).await {
        history["traffic"] = seen["exchanges"].take();
    }
    Ok(history)
}

fn timeline(history: &Value) -> anyhow::Result<Timeline> {
    Timeline::of_history(history).context("the server sent a history that cannot be read")
}

/// Returns how a session with this server can be resumed.
pub(crate) fn resumption(
    target: &Target,
    connect: &ConnectOptions,
    features: InteractionFeatures,
) -> Resumption {
    match target {
        _ if !features.stateful_sessions => Resumption::NotKept,
        Target::Address(address) => {
            Resumption::RunningServer(remote_command(&address.url, connect))
        }
        Target::Command(_) if !features.session_persistence => Resumption::EndsWithServer,
        Target::Command(spawn) => match store_of(spawn) {
            Some(store) => Resumption::Command(format!("{ANSWER} --store {store}")),
            None => Resumption::KeptByProgram,
        },
    }
}

/// Returns the store of an mcp-flow server, if its command line says which.
fn store_of(spawn: &Spawn) -> Option<StoreUrl> {
    let is_ours = Path::new(&spawn.program).file_name() == Some("mcp-flow".as_ref());
    let words: Vec<_> = spawn.arguments.iter().map(|word| word.to_string_lossy()).collect();
    let option = |name: &str| {
        let index = words.iter().position(|word| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })?;
        let inside = words[index].split_once('=').map(|(_, value)| value);
        inside.or_else(|| words.get(index + 1).map(|word| &**word))
    };
    let has_file = option("--config").is_some()
        || std::env::var_os("MCP_FLOW_CONFIG").is_some()
        || spawn.environment.iter().any(|(name, _)| name == "MCP_FLOW_CONFIG");
    let store = match option("--store") {
        Some(store) => store.parse().ok()?,
        // The file may name another store.
        None if has_file => return None,
        None => StoreUrl::default(),
    };
    let mut store = Some(store).filter(|store| is_ours && *store != StoreUrl::Memory)?;
    if let Some(path) = store.path_mut() {
        *path = Path::new(spawn.folder.as_deref().unwrap_or_default()).join(&*path);
    }
    Some(store)
}

fn remote_command(url: &str, connect: &ConnectOptions) -> String {
    let mut line = ANSWER.to_owned();
    if url != DEFAULT_URL {
        line += &format!(" --url {url}");
    }
    line + &connect.command_line()
}

/// Answers the pending question, and not one that replaces it meanwhile.
async fn answer(source: &SessionSource, id: &str, text: &str) -> anyhow::Result<Value> {
    let state = source.call(id, "interaction.getState", json!({})).await?;
    let prompt = &state["currentPrompt"];
    let mut response = json!({"value": parse_answer(prompt, text)});
    if prompt.is_object() {
        response["turnId"] = prompt["metadata"]["turnId"].clone();
    }
    let mut result = source.call(id, "interaction.respond", json!({"response": response})).await?;
    // No server advances the sessions of an offline store, so that happens here.
    while source.is_offline() && !source.is_left_to_server(id) && result["next"]["pending"] == true
    {
        let mut polled = source.call(id, "interaction.continue", json!({})).await?;
        result["next"] = polled["next"].take();
    }
    Ok(result)
}

/// Parses a typed answer: JSON, or plain text if it is none or the prompt asks for text (INT-123).
fn parse_answer(prompt: &Value, text: &str) -> Value {
    let parsed = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let is_chosen = |choice: &Value| choice["value"] == text;
    match prompt["type"].as_str() {
        Some("text" | "date") => text.into(),
        Some("choice") if prompt["choices"].as_array().is_some_and(|c| c.iter().any(is_chosen)) => {
            text.into()
        }
        Some("confirm") => match text.to_lowercase().as_str() {
            "y" | "yes" => true.into(),
            "n" | "no" => false.into(),
            _ => parsed,
        },
        _ => parsed,
    }
}

fn list_text(sessions: &[Value], format: Format) -> String {
    if sessions.is_empty() && format == Format::Table {
        return "(no sessions)".to_owned();
    }
    let row = |session: &Value| {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        let state = if session.get("stuck").is_some() { "stuck".to_owned() } else { text("state") };
        let wakes = time(&session["wakesAt"]).unwrap_or_default();
        let labels = session["labels"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        let labels = sanitize(&labels.collect::<Vec<_>>().join(" "));
        vec![text("sessionId"), state, text("toolName"), wakes, labels]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table::write(&["session", "state", "flow", "wakes", "labels"], &rows, format)
}

fn state_text(state: &Value) -> String {
    let text = |value: &Value| sanitize(value.as_str().unwrap_or_default());
    let mut lines = vec![format!(
        "{}  {}  {}",
        text(&state["sessionId"]),
        text(&state["state"]),
        text(&state["metadata"]["toolName"])
    )];
    for turn in state["history"].as_array().into_iter().flatten() {
        let (asked, answered) = (text(&turn["prompt"]["message"]), &turn["response"]["value"]);
        lines.push(format!("  {asked}  {}", sanitize(&answered.to_string())));
    }
    if let Some(open) = state["currentPrompt"]["message"].as_str() {
        lines.push(format!("  {}  …", sanitize(open)));
    }
    if state.get("result").is_some() {
        let data = sanitize(&state["result"]["data"].to_string());
        lines.push(format!("  {}  {data}", text(&state["summary"])));
    }
    let metadata = &state["metadata"];
    if let Some(stuck) = metadata.get("stuck") {
        lines.push("  Stuck: the code of the flow has changed".to_owned());
        lines.push(format!("    recorded  {}", text(&stuck["recorded"])));
        lines.push(format!("    now       {}", text(&stuck["asked"])));
    } else if let Some(at) = time(&metadata["wakesAt"]) {
        let asleep = if state["currentPrompt"].is_null() { "Asleep until" } else { "Timer at" };
        lines.push(format!("  {asleep} {at}"));
    }
    if let Some(ending) = metadata["ending"].as_str() {
        let steps = metadata["compensating"].as_array().map_or(0, Vec::len);
        lines.push(format!("  Ends as {}, steps to undo: {steps}", sanitize(ending)));
    }
    if let Some(at) = time(&metadata["expiresAt"]) {
        lines.push(format!("  Expires at {at} unless answered"));
    }
    if let Some(at) = time(&metadata["endedAt"]) {
        lines.push(format!("  Ended at {at}: {}", sanitize(&end_reason(state))));
    }
    for step in metadata["uncompensated"].as_array().into_iter().flatten() {
        lines.push(format!("  Not undone: {}", text(step)));
    }
    lines.join("\n")
}

/// Describes why a session ended.
fn end_reason(state: &Value) -> String {
    let metadata = &state["metadata"];
    let error = &metadata["error"];
    match (state["state"].as_str(), error["name"].as_str(), error["limit"].as_str()) {
        (Some("completed"), ..) => "completed".to_owned(),
        (Some("cancelled"), ..) => match metadata["reason"].as_str() {
            Some(reason) => format!("cancelled, {reason}"),
            None => "cancelled".to_owned(),
        },
        (_, Some("SESSION_EXPIRED"), Some("duration")) => {
            "expired, longest session duration exceeded".to_owned()
        }
        (_, Some("SESSION_EXPIRED"), _) => "expired, no answer in time".to_owned(),
        (_, Some(name), _) => {
            format!("failed, {} ({name})", error["message"].as_str().unwrap_or_default())
        }
        _ => "failed".to_owned(),
    }
}

/// Formats a timestamp in UTC.
fn time(millis: &Value) -> Option<String> {
    let time = DateTime::from_timestamp_millis(millis.as_i64()?)?;
    Some(time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

pub(crate) fn answer_text(result: &Value) -> String {
    if result["accepted"] == false {
        let validation = &result["validation"];
        let text = |name: &str| sanitize(validation[name].as_str().unwrap_or_default());
        return format!("Not accepted: {}. {}", text("error"), text("suggestion"));
    }
    let next = &result["next"];
    if let Some(message) = next["prompt"]["message"].as_str() {
        return format!("Accepted. Next: {}", sanitize(message));
    }
    match next["complete"]["summary"].as_str() {
        Some(summary) => {
            sanitize(&format!("Accepted. {summary}: {}", next["complete"]["result"]["data"]))
        }
        None => "Accepted; the session is processing.".to_owned(),
    }
}

const ANSWER: &str = "mcp-flow sessions answer";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::store_of;
    use crate::client::target::Spawn;

    /// INT-098: the store of an mcp-flow server is found on its command line.
    #[test]
    fn the_store_is_found_on_the_command_line() {
        let spawn = |line: &str, folder: Option<&str>| {
            let mut words = line.split(' ').map(Into::into);
            let program = words.next().unwrap();
            let folder = folder.map(str::to_owned);
            Spawn { program, arguments: words.collect(), folder, ..Spawn::default() }
        };
        for (line, folder, store) in [
            ("/usr/bin/mcp-flow stdio --store redb:/a", None, Some("redb:/a")),
            ("mcp-flow stdio --store=redb:a", Some("/srv"), Some("redb:/srv/a")),
            ("mcp-flow stdio", None, Some("sqlite:.mcp-flow/journal.db")),
            ("mcp-flow serve --store postgres://a@b/c", None, Some("postgres://a@b/c")),
            ("mcp-flow stdio --config flow.toml", None, None),
            ("mcp-flow stdio --store memory:", None, None),
            ("my-server --store redb:/a", None, None),
        ] {
            let found = store_of(&spawn(line, folder)).map(|store| store.to_string());
            assert_eq!(found.as_deref(), store, "{line}");
        }
    }

    /// INT-123, INT-122: a typed answer gets the type of the prompt.
    #[test]
    fn answers_are_parsed_by_the_type_of_the_prompt() {
        let choice = json!({"type": "choice", "choices": [{"value": "1"}, {"value": 2}]});
        for (prompt, text, value) in [
            (json!({"type": "text"}), "42", json!("42")),
            (json!({"type": "number"}), "42", json!(42)),
            (json!({"type": "number"}), "many", json!("many")),
            (json!({"type": "confirm"}), "Yes", json!(true)),
            (json!({"type": "confirm"}), "n", json!(false)),
            (json!({"type": "confirm"}), "true", json!(true)),
            (choice.clone(), "1", json!("1")),
            (choice, "2", json!(2)),
            (json!({"type": "custom"}), "{\"x\": 1}", json!({"x": 1})),
            (Value::Null, "x", json!("x")),
        ] {
            assert_eq!(super::parse_answer(&prompt, text), value, "{prompt} {text}");
        }
    }
}
