//! `mcp-flow pins`: lists, shows and approves the definitions of tools behind a gateway.

use std::process::ExitCode;

use clap::Subcommand;
use mcp_flow_gateway::Pins as PinFile;
use serde_json::{Value, json};

use crate::client::connect;
use crate::client::prompter::{Prompter, Resumption};
use crate::client::session_source::{SessionSource, SessionSourceOptions};
use crate::exit::{Exit, Failure};
use crate::server::gateway::pins_path;
use crate::terminal::ask::{Reply, UserInput};
use crate::terminal::output::{self, Format, sanitize, table};
use crate::terminal::progress::ProgressDisplay;

/// List, show and approve the tool definitions of servers behind a gateway
///
/// A gateway pins the definitions of a server's tools when it first lists them. A tool that is new or
/// has changed since is quarantined: hidden, and not callable, until it is approved.
///
/// Without --url, the file of pins next to the session store is used; a running server takes over
/// what is approved there.
#[derive(Debug, clap::Args)]
pub(crate) struct Pins {
    #[command(flatten)]
    source: SessionSourceOptions,

    #[command(subcommand)]
    action: Action,
}

/// Actions on pins.
#[derive(Debug, Subcommand)]
enum Action {
    /// List all tools with the state of their pins
    List,
    /// Show a tool's pin, and what has changed
    Show {
        /// Tool, as NAME.tool
        name: String,
    },
    /// Show what has changed in a tool's definition, and approve it
    ///
    /// On a terminal it asks before it approves. Only the definition that was shown is approved: one
    /// that changes meanwhile is not.
    Approve {
        /// Tools, as NAME.tool
        #[arg(required = true)]
        names: Vec<String>,
    },
}

impl Pins {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.source.url().is_none() {
            return connect::block_on(self.act_on_file());
        }
        let prompter =
            Prompter::new(UserInput::default(), ProgressDisplay::new(), Resumption::Unknown);
        let open = async |options: &SessionSourceOptions| options.open_or_server(&prompter).await;
        let work = async |source: &SessionSource| self.act_on_server(source).await;
        self.source.run(open, "interrupted", work)
    }

    /// Works on the file next to the store.
    async fn act_on_file(&self) -> anyhow::Result<ExitCode> {
        let path = pins_path(self.source.store()).ok_or_else(|| {
            Failure::new(Exit::Usage, "a store in memory has no pins; name the server with --url")
        })?;
        let pins = PinFile::open(&path)?;
        let unknown = |name: &str| {
            let name = sanitize(name);
            let message = format!("no tool {name} in {}; see `mcp-flow pins list`", path.display());
            Failure::new(Exit::Usage, message)
        };
        let find = |name: &String| -> anyhow::Result<_> {
            Ok(pins.find(name).ok_or_else(|| unknown(name))?)
        };
        let found = match &self.action {
            Action::List => pins.list(),
            Action::Show { name } => vec![find(name)?],
            Action::Approve { names } => names.iter().map(find).collect::<Result<_, _>>()?,
        };
        let shown = json!({"pins": found});
        self.print(&shown)?;
        let Action::Approve { names } = &self.action else { return Ok(ExitCode::SUCCESS) };
        if !self.confirm(&shown).await? {
            return self.say("not approved");
        }
        for (name, pin) in names.iter().zip(&found).filter(|(_, pin)| pin.quarantined.is_some()) {
            pins.approve(name, pin.quarantined.as_deref())?;
            self.say(&format!("approved {}", sanitize(name)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn act_on_server(&self, source: &SessionSource) -> anyhow::Result<ExitCode> {
        let names = match &self.action {
            Action::List => {
                let listed = source.request("admin/pins", json!({})).await?;
                return self.print(&listed);
            }
            Action::Show { name } => std::slice::from_ref(name),
            Action::Approve { names } => names,
        };
        let mut found = Vec::new();
        for name in names {
            let mut pins = source.request("admin/pins", json!({"name": name})).await?;
            found.push(pins["pins"][0].take());
        }
        let shown = json!({"pins": found});
        self.print(&shown)?;
        if !matches!(self.action, Action::Approve { .. }) {
            return Ok(ExitCode::SUCCESS);
        }
        if !self.confirm(&shown).await? {
            return self.say("not approved");
        }
        let found = shown["pins"].as_array().into_iter().flatten();
        for (name, pin) in names.iter().zip(found).filter(|(_, pin)| pin["quarantined"].is_string())
        {
            let params = json!({"name": name, "quarantined": pin["quarantined"]});
            source.request("admin/approvePin", params).await?;
            self.say(&format!("approved {}", sanitize(name)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Asks whether to approve what was shown. Without a terminal, to have called the command is to
    /// approve.
    async fn confirm(&self, shown: &Value) -> anyhow::Result<bool> {
        let mut pins = shown["pins"].as_array().into_iter().flatten();
        let is_needed = pins.any(|pin| pin["quarantined"].is_string());
        if !is_needed || self.source.format == Format::Json || !UserInput::is_interactive() {
            return Ok(true);
        }
        let reply = UserInput::default().confirm("Approve this?").await?;
        Ok(reply == Reply::Answer(true.into()))
    }

    /// Prints a line for people.
    fn say(&self, line: &str) -> anyhow::Result<ExitCode> {
        if self.source.format != Format::Json {
            output::print(line)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, result: &Value) -> anyhow::Result<ExitCode> {
        if self.source.format == Format::Json {
            output::print_json(result)?;
            return Ok(ExitCode::SUCCESS);
        }
        let pins = result["pins"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = match &self.action {
            Action::List if pins.is_empty() && self.source.format == Format::Table => {
                "(no pins)".to_owned()
            }
            Action::List => {
                let rows: Vec<_> = pins
                    .iter()
                    .map(|pin| vec![name(pin), text(pin, "state"), short_digest(pin)])
                    .collect();
                table::write(&["tool", "state", "sha-256"], &rows, self.source.format)
            }
            Action::Show { .. } => pins.iter().map(show).collect::<Vec<_>>().join("\n"),
            Action::Approve { .. } => pins.iter().map(change).collect::<Vec<_>>().join("\n"),
        };
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn text(pin: &Value, member: &str) -> String {
    sanitize(pin[member].as_str().unwrap_or_default())
}

fn name(pin: &Value) -> String {
    format!("{}.{}", text(pin, "server"), text(pin, "tool"))
}

fn short_digest(pin: &Value) -> String {
    let digest = pin["quarantined"].as_str().or(pin["digest"].as_str()).unwrap_or_default();
    digest.chars().take(16).collect()
}

fn show(pin: &Value) -> String {
    let mut lines = vec![format!("{}  {}", name(pin), text(pin, "state"))];
    for (member, label) in [("digest", "approved"), ("quarantined", "quarantined")] {
        if pin[member].is_string() {
            lines.push(format!("  {label}  {}", text(pin, member)));
        }
    }
    lines.extend(difference(pin));
    lines.join("\n")
}

fn change(pin: &Value) -> String {
    let name = name(pin);
    let first = match text(pin, "state").as_str() {
        "pinned" => return format!("{name} is approved already"),
        "new" => format!("{name} is new:"),
        _ => format!("{name} has changed:"),
    };
    std::iter::once(first).chain(difference(pin)).collect::<Vec<_>>().join("\n")
}

/// The lines of the difference, without characters that a terminal would interpret.
fn difference(pin: &Value) -> impl Iterator<Item = String> {
    let difference = pin["difference"].as_str().unwrap_or_default();
    difference.lines().map(sanitize).collect::<Vec<_>>().into_iter()
}
