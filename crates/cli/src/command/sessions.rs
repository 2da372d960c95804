//! `mcp-flow sessions`: look at conversations and take part in them.

mod remote;
mod resting;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::store::StoreUrl;
use remote::Remote;
use resting::Resting;

/// List, show, answer and cancel conversations, of a running server or in a store at rest
#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    /// The server that has them
    #[arg(long, value_name = "URL", global = true, default_value = DEFAULT_URL)]
    url: String,

    /// The bearer token to show to the server
    #[arg(
        long,
        value_name = "TOKEN",
        global = true,
        env = "MCP_FLOW_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,

    /// The store that has them, while no server uses it: redb:PATH
    #[arg(long, value_name = "URL", global = true)]
    store: Option<StoreUrl>,

    /// For people or for programs
    #[arg(long, value_enum, global = true, default_value_t)]
    format: Format,

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
        /// The answer: JSON, or plain text if it is none
        value: String,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines to read
    #[default]
    Text,
    /// One JSON value
    Json,
}

impl Sessions {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (result, text) = runtime.block_on(self.result())?;
        let rejected = result["accepted"] == false;
        let output = match self.format {
            Format::Json => result.to_string(),
            Format::Text => text,
        };
        print(&output)?;
        Ok(if rejected { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// What came of it, for programs and for people.
    async fn result(&self) -> anyhow::Result<(Value, String)> {
        let mut server = match &self.store {
            Some(store) => Place::Resting(Resting::open(store)?),
            None => Place::Remote(Remote::new(&self.url, self.token.as_deref())?),
        };
        match &self.action {
            Action::List => {
                let sessions = server.list().await?;
                let text = list_text(&sessions);
                Ok((json!({"sessions": sessions}), text))
            }
            Action::Show { id } => {
                let state = server.call(id, "interaction.getState", json!({})).await?;
                let text = state_text(&state);
                Ok((state, text))
            }
            Action::Answer { id, value } => {
                let result = server.answer(id, value).await?;
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

/// Who has the sessions.
enum Place {
    Remote(Remote),
    Resting(Resting),
}

impl Place {
    /// Calls a method about one session.
    async fn call(&mut self, id: &str, method: &str, mut params: Value) -> anyhow::Result<Value> {
        params["sessionId"] = id.into();
        match self {
            Self::Remote(remote) => remote.call(method, params).await,
            Self::Resting(resting) => resting.call(id, method, params).await,
        }
    }

    async fn list(&mut self) -> anyhow::Result<Vec<Value>> {
        match self {
            Self::Remote(remote) => remote.list().await,
            Self::Resting(resting) => resting.list().await,
        }
    }

    /// Answers with JSON if the answer is some and the question does not ask for text.
    async fn answer(&mut self, id: &str, text: &str) -> anyhow::Result<Value> {
        let state = self.call(id, "interaction.getState", json!({})).await?;
        let wants_text = matches!(state["currentPrompt"]["type"].as_str(), Some("text" | "date"));
        let value = match serde_json::from_str::<Value>(text) {
            Ok(value) if !wants_text => value,
            _ => text.into(),
        };
        self.call(id, "interaction.respond", json!({"response": {"value": value}})).await
    }
}

fn list_text(sessions: &[Value]) -> String {
    if sessions.is_empty() {
        return "There are no conversations.".to_owned();
    }
    let lines = sessions.iter().map(|session| {
        let text = |name: &str| session[name].as_str().unwrap_or_default();
        format!("{}  {:<12}  {}", text("sessionId"), text("state"), text("toolName"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn state_text(state: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = vec![format!(
        "{}  {}  {}",
        text(&state["sessionId"]),
        text(&state["state"]),
        text(&state["metadata"]["toolName"])
    )];
    for turn in state["history"].as_array().into_iter().flatten() {
        let (asked, answered) = (text(&turn["prompt"]["message"]), &turn["response"]["value"]);
        lines.push(format!("  {asked}  {answered}"));
    }
    if let Some(open) = state["currentPrompt"]["message"].as_str() {
        lines.push(format!("  {open}  …"));
    }
    if state.get("result").is_some() {
        lines.push(format!("  {}  {}", text(&state["summary"]), state["result"]["data"]));
    }
    lines.join("\n")
}

fn answer_text(result: &Value) -> String {
    if result["accepted"] == false {
        let validation = &result["validation"];
        let text = |name: &str| validation[name].as_str().unwrap_or_default();
        return format!("Not accepted: {}. {}", text("error"), text("suggestion"));
    }
    let next = &result["next"];
    if let Some(message) = next["prompt"]["message"].as_str() {
        return format!("Accepted. Next: {message}");
    }
    match next["complete"]["summary"].as_str() {
        Some(summary) => format!("Accepted. {summary}: {}", next["complete"]["result"]["data"]),
        None => "Accepted; it is at work.".to_owned(),
    }
}

#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("standard output is closed")
}

/// The error of a reply, in a sentence.
fn result_of(reply: &Value) -> anyhow::Result<Value> {
    if let Some(result) = reply.get("result") {
        return Ok(result.clone());
    }
    let error = &reply["error"];
    let message = error["message"].as_str().unwrap_or("the server's answer makes no sense");
    match error["data"]["details"].as_str() {
        Some(details) => anyhow::bail!("{message} ({details})"),
        None => anyhow::bail!("{message}"),
    }
}

/// Who asks, for requests that stand alone.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo":
            {"name": "mcp-flow", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

const DEFAULT_URL: &str = "http://127.0.0.1:4433/mcp";
