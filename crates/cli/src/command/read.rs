//! `mcp-flow read` and `watch`: what a resource holds, now and from now on.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use mcp_flow::client::host::Nobody;
use mcp_flow::client::{Change, Client, Error, Watched};
use serde_json::Value;

use crate::download::{self, Piece};
use crate::exit::{Exit, Failure};
use crate::fault::{explain, is_permanent};
use crate::meter::Meter;
use crate::reach::Reach;
use crate::show::{self, Format, content, neutral};

/// Read a resource
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow read [OPTIONS] TARGET URI\n       mcp-flow read [OPTIONS] URI -- COMMAND..."
)]
pub(crate) struct Read {
    /// The server, and which of its resources
    #[arg(value_name = "TARGET URI")]
    words: Vec<String>,

    /// Save the contents in this folder, byte for byte
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Write the contents to standard output byte for byte, whatever they would do to a terminal
    #[arg(long, conflicts_with = "output")]
    raw: bool,

    #[command(flatten)]
    reach: Reach,
}

/// Show a resource whenever it changes, until ctrl-c
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow watch [OPTIONS] TARGET URI\n       mcp-flow watch [OPTIONS] URI -- COMMAND..."
)]
pub(crate) struct Watch {
    /// The server, and which of its resources
    #[arg(value_name = "TARGET URI")]
    words: Vec<String>,

    /// End after so many changes
    #[arg(long, value_name = "N")]
    changes: Option<usize>,

    #[command(flatten)]
    reach: Reach,
}

impl Read {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.reach.find(&self.words)?;
        let uri = one_uri(rest)?;
        self.reach.with_client(&target, Nobody, async |client| {
            self.read(client, uri).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn read(&self, client: &Client, uri: &str) -> anyhow::Result<()> {
        let result = client.read_resource(uri).raw().await.map_err(explain)?;
        let contents = contents(&result)?;
        if let Some(folder) = &self.output {
            let places = contents.iter().enumerate();
            let pieces =
                places.filter_map(|(place, it)| download::contents(place + 1, it)).collect();
            for path in download::save(client, pieces, folder, &Meter::new()).await? {
                eprintln!("saved {}", path.display());
            }
            return Ok(());
        }
        if self.raw {
            let places = contents.iter().enumerate();
            for piece in places.filter_map(|(place, it)| download::contents(place + 1, it)) {
                write_bytes(client, piece).await?;
            }
            return Ok(());
        }
        show(&result, self.reach.format)
    }
}

impl Watch {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.reach.find(&self.words)?;
        let uri = one_uri(rest)?;
        self.reach.with_client(&target, Nobody, async |client| {
            self.watch(client, uri).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Listens before it reads, so that no change is missed in between (PAT-060). What cannot be read
    /// for a while, such as a file that another is put in the place of, is waited for.
    async fn watch(&self, client: &Client, uri: &str) -> anyhow::Result<()> {
        let watched = Watched::new().resource(uri);
        let mut changes = client.listen(watched).await.map_err(explain)?;
        let (mut left, mut has_changed) = (self.changes, false);
        let mut latest = Value::Null;
        loop {
            match client.read_resource(uri).raw().await {
                Ok(result) => {
                    // After a reconnection it may be what it was.
                    if result["contents"] != latest {
                        show(&result, self.reach.format)?;
                        latest = result["contents"].clone();
                    }
                    left = left.map(|left| left - usize::from(std::mem::take(&mut has_changed)));
                }
                Err(Error::Server(error)) if !latest.is_null() && !is_permanent(&error) => {
                    let error = neutral(&error.to_string());
                    eprintln!("mcp-flow: {error}. Waiting for the next change");
                }
                Err(error) => return Err(explain(error)),
            }
            if left == Some(0) {
                return Ok(());
            }
            match changes.next().await {
                Some(Ok(Change::Resource(_))) => has_changed = true,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(explain(error)),
                None => anyhow::bail!("the server tells of no more changes"),
            }
        }
    }
}

fn one_uri(words: &[String]) -> anyhow::Result<&str> {
    match words {
        [uri] => Ok(uri),
        [] => {
            let message = "no resource is named; `mcp-flow resources TARGET` lists what there is";
            Err(Failure::new(Exit::Usage, message).into())
        }
        [_, rest @ ..] => super::nothing_more(rest).map(|()| ""),
    }
}

fn contents(result: &Value) -> anyhow::Result<&[Value]> {
    let contents = result["contents"].as_array();
    let problem = || Failure::new(Exit::Protocol, "the server sent a resource without contents");
    Ok(contents.ok_or_else(problem)?)
}

fn show(result: &Value, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return show::print_json(result);
    }
    let texts: Vec<_> = contents(result)?.iter().map(content::contents).collect();
    show::print(&texts.join("\n"))
}

#[expect(clippy::disallowed_methods, reason = "no client speaks on standard output here")]
async fn write_bytes(client: &Client, piece: Piece) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match piece {
        Piece::Held { data, .. } => out.write_all(&data).context("standard output is closed")?,
        Piece::Elsewhere { name, link } => {
            download::fetch(client, &link, &mut out, &name, &Meter::silent()).await?;
        }
    }
    out.flush().context("standard output is closed")
}
