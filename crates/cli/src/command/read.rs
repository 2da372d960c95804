//! `mcp-flow read` and `watch`: the contents of a resource, once or at every change.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap_complete::engine::ArgValueCompleter;
use futures_util::StreamExt as _;
use mcp_flow::client::host::DenyAll;
use mcp_flow::client::{ChangeFilter, Client, Error, ServerChange, ServerError};
use serde_json::Value;

use crate::client::connect::ConnectOptions;
use crate::client::download::{self, Piece};
use crate::client::error::{explain, is_permanent};
use crate::client::suggestion::did_you_mean;
use crate::command::completions;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, content, sanitize};
use crate::terminal::progress::ProgressDisplay;

/// Read a resource
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow read [OPTIONS] TARGET URI\n       mcp-flow read [OPTIONS] URI -- COMMAND..."
)]
pub(crate) struct Read {
    /// Server (address or configured name) and URI of the resource
    #[arg(value_name = "TARGET URI", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    /// Save the contents in this directory, byte for byte
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write the contents to standard output byte for byte, including control characters
    #[arg(long, conflicts_with = "output")]
    raw: bool,

    #[command(flatten)]
    connect: ConnectOptions,
}

/// Show a resource whenever it changes, until ctrl-c
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow watch [OPTIONS] TARGET URI\n       mcp-flow watch [OPTIONS] URI -- COMMAND..."
)]
pub(crate) struct Watch {
    /// Server (address or configured name) and URI of the resource
    #[arg(value_name = "TARGET URI", add = ArgValueCompleter::new(completions::words))]
    words: Vec<String>,

    /// Exit after this number of changes
    #[arg(long, alias = "changes", value_name = "NUMBER")]
    count: Option<usize>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Read {
    /// Returns the words of the command line, for completing them.
    pub(crate) fn target_words(&self) -> (&ConnectOptions, &[String]) {
        (&self.connect, &self.words)
    }

    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.words)?;
        let uri = single_uri(rest)?;
        self.connect.with_client(&target, DenyAll, async |client| {
            self.read(client, uri).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn read(&self, client: &Client, uri: &str) -> anyhow::Result<()> {
        let result = match client.read_resource(uri).raw().await {
            Ok(result) => result,
            Err(error) => return Err(explain_unread(client, uri, error).await),
        };
        let contents = contents(&result)?;
        if let Some(folder) = &self.output {
            let numbered = contents.iter().enumerate();
            let pieces =
                numbered.filter_map(|(index, it)| download::contents(index + 1, it)).collect();
            for path in download::save(client, pieces, folder, &ProgressDisplay::new()).await? {
                eprintln!("saved {}", path.display());
            }
            return Ok(());
        }
        if self.raw {
            let numbered = contents.iter().enumerate();
            for piece in numbered.filter_map(|(index, it)| download::contents(index + 1, it)) {
                write_bytes(client, piece).await?;
            }
            return Ok(());
        }
        show(&result, self.connect.format)
    }
}

impl Watch {
    /// Returns the words of the command line, for completing them.
    pub(crate) fn target_words(&self) -> (&ConnectOptions, &[String]) {
        (&self.connect, &self.words)
    }

    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.words)?;
        let uri = single_uri(rest)?;
        self.connect.with_client(&target, DenyAll, async |client| {
            self.watch(client, uri).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Subscribes before the first read, so that no change is missed (PAT-060). A resource that cannot
    /// be read for a moment, such as a file that is being replaced, is waited for.
    async fn watch(&self, client: &Client, uri: &str) -> anyhow::Result<()> {
        let watched = ChangeFilter::new().resource(uri);
        let mut changes = client.listen(watched).await.map_err(explain)?;
        let (mut left, mut has_changed) = (self.count, false);
        let mut latest = Value::Null;
        loop {
            match client.read_resource(uri).raw().await {
                Ok(result) => {
                    // After a reconnection it may be unchanged.
                    if result["contents"] != latest {
                        show(&result, self.connect.format)?;
                        latest = result["contents"].clone();
                    }
                    left = left.map(|left| left - usize::from(std::mem::take(&mut has_changed)));
                }
                Err(Error::Server(error)) if !latest.is_null() && !is_permanent(&error) => {
                    let error = sanitize(&error.to_string());
                    eprintln!("mcp-flow: {error}. Waiting for the next change");
                }
                Err(error) => return Err(explain_unread(client, uri, error).await),
            }
            if left == Some(0) {
                return Ok(());
            }
            match changes.next().await {
                Some(Ok(ServerChange::Resource(_))) => has_changed = true,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(explain(error)),
                None => anyhow::bail!("the server ended the subscription"),
            }
        }
    }
}

fn single_uri(words: &[String]) -> anyhow::Result<&str> {
    match words {
        [uri] => Ok(uri),
        [] => {
            let message =
                "no resource given; `mcp-flow resources TARGET` lists the resources of a server";
            Err(Failure::new(Exit::Usage, message).into())
        }
        [_, rest @ ..] => super::reject_extra_arguments(rest).map(|()| ""),
    }
}

/// Converts an error of `resources/read`. A URI that the server does not know may be a mistyped one.
async fn explain_unread(client: &Client, uri: &str, error: Error) -> anyhow::Error {
    let is_unknown = |error: &ServerError| {
        error.name() == Some("RESOURCE_NOT_FOUND")
            || matches!(error.code, RESOURCE_NOT_FOUND | INVALID_PARAMS)
    };
    let is_unknown = error.server().is_some_and(is_unknown);
    let explained = explain(error);
    if !is_unknown {
        return explained;
    }
    // A list that fails or does not end leaves the error as it is.
    let listed = tokio::time::timeout(TIME_TO_LIST, client.resources().all()).await;
    let Ok(Ok(listed)) = listed else { return explained };
    let hint = did_you_mean(uri, listed.iter().map(|resource| resource.uri.as_str()), "");
    match hint.is_empty() {
        true => explained,
        false => {
            Failure::new(Failure::exit_of(&explained), format!("{explained:#}\n{hint}")).into()
        }
    }
}

/// Codes of the errors for an unknown URI; the second one since 2026-07-28.
const RESOURCE_NOT_FOUND: i64 = -32002;
const INVALID_PARAMS: i64 = -32602;

/// Time to list resources for a suggestion.
const TIME_TO_LIST: Duration = Duration::from_secs(5);

fn contents(result: &Value) -> anyhow::Result<&[Value]> {
    let contents = result["contents"].as_array();
    let problem = || Failure::new(Exit::Protocol, "the server sent a resource without contents");
    Ok(contents.ok_or_else(problem)?)
}

fn show(result: &Value, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::print_json(result);
    }
    let texts: Vec<_> = contents(result)?.iter().map(content::contents).collect();
    output::print(&texts.join("\n"))
}

#[expect(clippy::disallowed_methods, reason = "no client is served on standard output here")]
async fn write_bytes(client: &Client, piece: Piece) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match piece {
        Piece::Inline { data, .. } => {
            out.write_all(&data).context("cannot write to standard output")?;
        }
        Piece::Linked { name, link } => {
            download::fetch(client, &link, &mut out, &name, &ProgressDisplay::silent()).await?;
        }
    }
    out.flush().context("cannot write to standard output")
}
