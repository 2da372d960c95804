//! `mcp-flow sessions`: look at conversations and take part in them.

use std::path::Path;
use std::process::ExitCode;

use chrono::DateTime;
use clap::Subcommand;
use mcp_flow::client::interaction::Features;
use serde_json::{Value, json};

use crate::ask::Asker;
use crate::conversation::{Resumption, Talk};
use crate::exit::Exit;
use crate::meter::Meter;
use crate::place::{DEFAULT_URL, Place, Whereabouts};
use crate::reach::Trusted;
use crate::show::{self, Format, neutral, table};
use crate::store::{DEFAULT, StoreUrl};
use crate::target::{Spawn, Target};

/// List, show, answer and cancel conversations, of a running server or in a store at rest
#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    #[command(flatten)]
    place: Whereabouts,

    #[command(subcommand)]
    action: Action,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
enum Action {
    /// List the conversations there are
    List,
    /// Show one: its questions, answers and end
    Show {
        /// Which one
        id: String,
    },
    /// Answer the question one waits with
    Answer {
        /// Which one
        id: String,
        /// The answer: JSON, or plain text if it is none; without it the conversation goes on here
        value: Option<String>,
    },
    /// End one
    Cancel {
        /// Which one
        id: String,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
}

impl Sessions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let again = Resumption::By(self.place.again(ANSWER));
        let talk = Talk::new(Asker::default(), Meter::new(), again);
        let find = async |place: &Whereabouts| place.or_server(&talk).await;
        self.place.work(find, self.interrupted(), async |server| self.act(server, &talk).await)
    }

    /// Message for ctrl-c, which is true of what the command had begun.
    fn interrupted(&self) -> &'static str {
        match &self.action {
            Action::List | Action::Show { .. } => "interrupted",
            Action::Answer { value: None, .. } => {
                "interrupted; the session keeps waiting for an answer"
            }
            Action::Answer { value: Some(_), .. } => {
                "interrupted; the answer may have been accepted: see `mcp-flow sessions show`"
            }
            Action::Cancel { .. } => {
                "interrupted; the session may have been cancelled: see `mcp-flow sessions show`"
            }
        }
    }

    async fn act(&self, server: &Place, talk: &Talk) -> anyhow::Result<ExitCode> {
        if let Action::Answer { id, value: None } = &self.action {
            let end = server.take_up(talk, id).await?;
            return super::call::show_end(&end, self.place.format);
        }
        let (result, text) = self.result(server).await?;
        match self.place.format {
            Format::Json => show::print_json(&result)?,
            _ => show::print(&text)?,
        }
        let is_rejected = result["accepted"] == false;
        Ok(if is_rejected { Exit::Failed.into() } else { ExitCode::SUCCESS })
    }

    /// What came of it, for programs and for people.
    async fn result(&self, server: &Place) -> anyhow::Result<(Value, String)> {
        match &self.action {
            Action::List => {
                let sessions = server.list().await?;
                let text = list_text(&sessions, self.place.format);
                Ok((json!({"sessions": sessions}), text))
            }
            Action::Show { id } => {
                let state = server.call(id, "interaction.getState", json!({})).await?;
                let text = state_text(&state);
                Ok((state, text))
            }
            Action::Answer { id, value } => {
                let result = answer(server, id, value.as_deref().unwrap_or_default()).await?;
                let text = answer_text(&result);
                Ok((result, text))
            }
            Action::Cancel { id, reason } => {
                let params = json!({"reason": reason});
                let result = server.call(id, "interaction.cancel", params).await?;
                Ok((result, format!("{id} is cancelled")))
            }
        }
    }
}

/// What becomes of a conversation with this server that is left before its end.
pub(crate) fn resumption(target: &Target, trusted: &Trusted, features: Features) -> Resumption {
    match target {
        _ if !features.stateful_sessions => Resumption::NotKept,
        Target::Address(address) => Resumption::Running(running(&address.url, trusted)),
        Target::Command(_) if !features.session_persistence => Resumption::Ends,
        Target::Command(spawn) => match store_of(spawn) {
            Some(store) => Resumption::By(at_rest(&store)),
            None => Resumption::Unknown,
        },
    }
}

/// The store of a server that this program is, if its command line says which.
fn store_of(spawn: &Spawn) -> Option<StoreUrl> {
    let is_ours = Path::new(&spawn.program).file_name() == Some("mcp-flow".as_ref());
    let words: Vec<_> = spawn.arguments.iter().map(|word| word.to_string_lossy()).collect();
    let option = |name: &str| {
        let place = words.iter().position(|word| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        })?;
        let inside = words[place].split_once('=').map(|(_, value)| value);
        inside.or_else(|| words.get(place + 1).map(|word| &**word))
    };
    let has_file = option("--config").is_some()
        || std::env::var_os("MCP_FLOW_CONFIG").is_some()
        || spawn.environment.iter().any(|(name, _)| name == "MCP_FLOW_CONFIG");
    let store = match option("--store") {
        Some(store) => store.parse().ok()?,
        // The file may name another.
        None if has_file => return None,
        None => StoreUrl::Redb(DEFAULT.into()),
    };
    match store {
        StoreUrl::Redb(path) if is_ours => {
            let folder = spawn.folder.as_deref().unwrap_or_default();
            Some(StoreUrl::Redb(Path::new(folder).join(path)))
        }
        _ => None,
    }
}

fn running(url: &str, trusted: &Trusted) -> String {
    let mut line = ANSWER.to_owned();
    if url != DEFAULT_URL {
        line += &format!(" --url {url}");
    }
    line + &trusted.again()
}

fn at_rest(store: &StoreUrl) -> String {
    format!("{ANSWER} --store {store}")
}

/// Answers the question that is open now, and no other that may follow it meanwhile.
async fn answer(place: &Place, id: &str, text: &str) -> anyhow::Result<Value> {
    let state = place.call(id, "interaction.getState", json!({})).await?;
    let prompt = &state["currentPrompt"];
    let mut response = json!({"value": typed(prompt, text)});
    if prompt.is_object() {
        response["turnId"] = prompt["metadata"]["turnId"].clone();
    }
    let mut result = place.call(id, "interaction.respond", json!({"response": response})).await?;
    // Nobody else goes on with a store at rest, so what the answer leads to is done here.
    while place.is_at_rest() && result["next"]["pending"] == true {
        let mut polled = place.call(id, "interaction.continue", json!({})).await?;
        result["next"] = polled["next"].take();
    }
    Ok(result)
}

/// What a person means who types this as the answer to a question: JSON, or plain text if it is none
/// or that is asked for (INT-123).
fn typed(prompt: &Value, text: &str) -> Value {
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
        return "There are no conversations.".to_owned();
    }
    let row = |session: &Value| {
        let text = |name: &str| session[name].as_str().unwrap_or_default().to_owned();
        vec![text("sessionId"), text("state"), text("toolName")]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    table::write(&["session", "state", "flow"], &rows, format)
}

fn state_text(state: &Value) -> String {
    let text = |value: &Value| neutral(value.as_str().unwrap_or_default());
    let mut lines = vec![format!(
        "{}  {}  {}",
        text(&state["sessionId"]),
        text(&state["state"]),
        text(&state["metadata"]["toolName"])
    )];
    for turn in state["history"].as_array().into_iter().flatten() {
        let (asked, answered) = (text(&turn["prompt"]["message"]), &turn["response"]["value"]);
        lines.push(format!("  {asked}  {}", neutral(&answered.to_string())));
    }
    if let Some(open) = state["currentPrompt"]["message"].as_str() {
        lines.push(format!("  {}  …", neutral(open)));
    }
    if state.get("result").is_some() {
        let data = neutral(&state["result"]["data"].to_string());
        lines.push(format!("  {}  {data}", text(&state["summary"])));
    }
    let metadata = &state["metadata"];
    if let Some(at) = time(&metadata["expiresAt"]) {
        lines.push(format!("  Expires at {at} unless it is answered"));
    }
    if let Some(at) = time(&metadata["endedAt"]) {
        lines.push(format!("  Ended at {at}: {}", neutral(&ending(state))));
    }
    lines.join("\n")
}

/// Why a session ended, in words.
fn ending(state: &Value) -> String {
    let metadata = &state["metadata"];
    let error = &metadata["error"];
    match (state["state"].as_str(), error["name"].as_str(), error["limit"].as_str()) {
        (Some("completed"), ..) => "it was completed".to_owned(),
        (Some("cancelled"), ..) => match metadata["reason"].as_str() {
            Some(reason) => format!("it was cancelled, {reason}"),
            None => "it was cancelled".to_owned(),
        },
        (_, Some("SESSION_EXPIRED"), Some("duration")) => {
            "it expired, having taken longer than a conversation may altogether".to_owned()
        }
        (_, Some("SESSION_EXPIRED"), _) => "it expired, since nobody answered in time".to_owned(),
        (_, Some(name), _) => {
            format!("it failed, {} ({name})", error["message"].as_str().unwrap_or_default())
        }
        _ => "it failed".to_owned(),
    }
}

/// A point in time as people write it, in UTC.
fn time(millis: &Value) -> Option<String> {
    let time = DateTime::from_timestamp_millis(millis.as_i64()?)?;
    Some(time.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

pub(crate) fn answer_text(result: &Value) -> String {
    if result["accepted"] == false {
        let validation = &result["validation"];
        let text = |name: &str| neutral(validation[name].as_str().unwrap_or_default());
        return format!("Not accepted: {}. {}", text("error"), text("suggestion"));
    }
    let next = &result["next"];
    if let Some(message) = next["prompt"]["message"].as_str() {
        return format!("Accepted. Next: {}", neutral(message));
    }
    match next["complete"]["summary"].as_str() {
        Some(summary) => {
            neutral(&format!("Accepted. {summary}: {}", next["complete"]["result"]["data"]))
        }
        None => "Accepted; it is at work.".to_owned(),
    }
}

const ANSWER: &str = "mcp-flow sessions answer";

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::store_of;
    use crate::target::Spawn;

    /// INT-098: the store of a server is known where its command line says which, and that it is ours.
    #[test]
    fn the_store_of_a_server_is_found() {
        let spawn = |line: &str, folder: Option<&str>| {
            let mut words = line.split(' ').map(Into::into);
            let program = words.next().unwrap();
            let folder = folder.map(str::to_owned);
            Spawn { program, arguments: words.collect(), folder, ..Spawn::default() }
        };
        for (line, folder, store) in [
            ("/usr/bin/mcp-flow stdio --store redb:/a", None, Some("redb:/a")),
            ("mcp-flow stdio --store=redb:a", Some("/srv"), Some("redb:/srv/a")),
            ("mcp-flow stdio", None, Some("redb:.mcp-flow/journal.redb")),
            ("mcp-flow stdio --config flow.toml", None, None),
            ("mcp-flow stdio --store memory:", None, None),
            ("my-server --store redb:/a", None, None),
        ] {
            let found = store_of(&spawn(line, folder)).map(|store| store.to_string());
            assert_eq!(found.as_deref(), store, "{line}");
        }
    }

    /// INT-123, INT-122: what is typed becomes what the question asks for.
    #[test]
    fn answers_are_typed_as_people_do() {
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
            assert_eq!(super::typed(&prompt, text), value, "{prompt} {text}");
        }
    }
}
