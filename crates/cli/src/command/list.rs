//! `mcp-flow tools`, `resources` and `prompts`: list what a server offers.

use std::process::ExitCode;

use clap_complete::engine::ArgValueCompleter;
use mcp_flow::client::host::DenyAll;
use mcp_flow::client::{Client, Error};
use mcp_flow::model::Icon;
use serde_json::{Value, json};

use crate::client::connect::ConnectOptions;
use crate::client::error::{METHOD_NOT_FOUND, explain};
use crate::command::completions;
use crate::terminal::output::{self, Format, content, table};

/// List the tools of a server
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow tools [OPTIONS] TARGET\n       mcp-flow tools [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Tools {
    /// List only the tools of this category
    #[arg(long, value_name = "NAME")]
    category: Option<String>,

    #[command(flatten)]
    list: List,
}

/// List the resources of a server
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow resources [OPTIONS] TARGET\n       mcp-flow resources [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Resources {
    #[command(flatten)]
    list: List,
}

/// List the prompts of a server
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow prompts [OPTIONS] TARGET\n       mcp-flow prompts [OPTIONS] -- COMMAND..."
)]
pub(crate) struct Prompts {
    #[command(flatten)]
    list: List,
}

#[derive(Debug, clap::Args)]
struct List {
    /// Server: an address, or a name in the configuration
    #[arg(value_name = "TARGET", add = ArgValueCompleter::new(completions::words))]
    target: Vec<String>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Tools {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let category = self.category;
        self.list.run(async |client, format| {
            let mut tools = fetch_all(client, "tools/list", "tools").await?;
            if let Some(category) = &category {
                tools.retain(|tool| has_category(tool, category));
            }
            let row = |tool: &Value| {
                vec![text(tool, "name"), argument_names(&tool["inputSchema"]), description(tool)]
            };
            let (heading, rows) = with_icons(&tools, vec!["name", "arguments", "description"], row);
            show_list(format, json!({"tools": tools}), &heading, rows)
        })
    }
}

impl Resources {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.list.run(async |client, format| {
            let resources = fetch_all(client, "resources/list", "resources").await?;
            let templates =
                fetch_all(client, "resources/templates/list", "resourceTemplates").await?;
            let row = |uri: &str| {
                let uri = uri.to_owned();
                move |entry: &Value| {
                    let size = entry["size"].as_u64().map(content::bytes).unwrap_or_default();
                    vec![text(entry, &uri), text(entry, "mimeType"), size, description(entry)]
                }
            };
            let mut rows: Vec<_> = resources.iter().map(row("uri")).collect();
            rows.extend(templates.iter().map(row("uriTemplate")));
            let value = json!({"resources": resources, "resourceTemplates": templates});
            show_list(format, value, &["uri", "type", "size", "description"], rows)
        })
    }
}

impl Prompts {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.list.run(async |client, format| {
            let prompts = fetch_all(client, "prompts/list", "prompts").await?;
            let row = |prompt: &Value| {
                let names =
                    prompt["arguments"].as_array().into_iter().flatten().map(|argument| {
                        optional(text(argument, "name"), argument["required"] == true)
                    });
                let names: Vec<_> = names.collect();
                vec![text(prompt, "name"), names.join(" "), description(prompt)]
            };
            let (heading, rows) =
                with_icons(&prompts, vec!["name", "arguments", "description"], row);
            show_list(format, json!({"prompts": prompts}), &heading, rows)
        })
    }
}

impl List {
    fn run(
        self,
        show: impl AsyncFnOnce(&Client, Format) -> anyhow::Result<()>,
    ) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.target)?;
        super::reject_extra_arguments(rest)?;
        self.connect.with_client(&target, DenyAll, async |client| {
            show(client, self.connect.format).await?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Returns whether a tool has a category, which servers send as a list or as one name (MCP-088).
fn has_category(tool: &Value, category: &str) -> bool {
    [&tool["_meta"], &tool["annotations"]].iter().any(|metadata| {
        metadata["category"] == category
            || metadata["categories"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one == category))
    })
}

/// Fetches all entries of a list; none if the server does not support the method.
pub(crate) async fn fetch_all(
    client: &Client,
    method: &'static str,
    member: &'static str,
) -> anyhow::Result<Vec<Value>> {
    match client.entries(method, member).all().await {
        Err(Error::Server(error)) if error.code == METHOD_NOT_FOUND => Ok(Vec::new()),
        listed => listed.map_err(explain),
    }
}

fn show_list(
    format: Format,
    value: Value,
    heading: &[&str],
    rows: Vec<Vec<String>>,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::print_json(&value),
        Format::Table if rows.is_empty() => output::print("(none)"),
        _ => output::print(&table::write(heading, &rows, format)),
    }
}

/// Makes a row of each entry, with a column for icons if any entry has one to show.
fn with_icons<'a>(
    entries: &[Value],
    mut heading: Vec<&'a str>,
    row: impl Fn(&Value) -> Vec<String>,
) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let icons: Vec<_> = entries.iter().map(|entry| icon(&entry["icons"])).collect();
    let mut rows: Vec<_> = entries.iter().map(row).collect();
    if icons.iter().any(|icon| !icon.is_empty()) {
        heading.push("icon");
        rows.iter_mut().zip(icons).for_each(|(row, icon)| row.push(icon));
    }
    (heading, rows)
}

/// Names the first icon that may be shown: its URL, or the type and size of its data.
fn icon(icons: &Value) -> String {
    let Some(icon) = Icon::displayable(icons.clone()).into_iter().next() else {
        return String::new();
    };
    match icon.src.split_once(',') {
        Some((kind, data)) if kind.starts_with("data:") => {
            format!("{} ({})", kind.trim_end_matches(";base64"), content::bytes(data.len() as u64))
        }
        _ => icon.src,
    }
}

fn text(entry: &Value, member: &str) -> String {
    entry[member].as_str().unwrap_or_default().to_owned()
}

/// Returns the description, title or name of an entry.
fn description(entry: &Value) -> String {
    let text = ["description", "title", "name"].iter().find_map(|member| entry[*member].as_str());
    text.unwrap_or_default().to_owned()
}

/// Lists the names of arguments, with optional ones in brackets.
fn argument_names(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|known| known == name))
    };
    let names = schema["properties"].as_object().into_iter().flatten();
    let names: Vec<_> = names.map(|(name, _)| optional(name.clone(), required(name))).collect();
    names.join(" ")
}

fn optional(name: String, is_required: bool) -> String {
    if is_required { name } else { format!("[{name}]") }
}
