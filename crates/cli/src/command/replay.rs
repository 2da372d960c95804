//! `mcp-flow replay`: a server that answers as recorded.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow_cassette::{Cassette, Player, ReplayOptions, ReplayServer, Tape, replay_stdio};
use serde_json::json;
use tokio::net::TcpListener;

use crate::command::serve::{check_public, print_line};
use crate::configuration::socket_address;
use crate::exit::{Exit, Failure};
use crate::terminal::output::sanitize;

/// Serve a recording: a mock of the recorded server
///
/// Requests are matched by method and params; `_meta` and masked values are ignored. A request that
/// was not recorded fails with an error that names the nearest recorded one.
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    /// Recording of `mcp-flow record`
    file: PathBuf,

    /// Serve over HTTP on this address; port 0 selects a free one [default: serve one client over
    /// standard input and output]
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    listen: Option<SocketAddr>,

    /// Print the endpoints as one line of JSON when ready
    #[arg(long, requires = "listen")]
    json: bool,

    /// Allow listening on a public address
    #[arg(long, requires = "listen")]
    insecure: bool,

    /// Accept requests only in the recorded order
    #[arg(long)]
    ordered: bool,

    /// Reproduce the response times of the recorded server
    #[arg(long)]
    delays: bool,

    /// Ignore members of params with this name when matching; may be repeated
    #[arg(long = "vary", value_name = "NAME")]
    vary: Vec<String>,
}

impl Replay {
    #[expect(clippy::disallowed_methods, reason = "no other server writes to the client here")]
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let cassette = read(&self.file)?;
        let tape = Arc::new(Tape::new(&cassette, &self.vary));
        drop(cassette);
        let options = ReplayOptions { is_ordered: self.ordered, has_delays: self.delays };
        let Some(listen) = self.listen else {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let replayed = runtime.block_on(async {
                let stop = mcp_flow::stdio::stop_signal()?;
                let player = Player::new(tape, options);
                tokio::select! {
                    ended = replay_stdio(player, tokio::io::stdin(), tokio::io::stdout()) => ended,
                    () = stop => Ok(()),
                }
            });
            runtime.shutdown_background();
            replayed.context("lost the connection to the client")?;
            return Ok(ExitCode::SUCCESS);
        };
        check_public(listen, self.insecure)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal().context("cannot listen for signals")?;
            let listener = TcpListener::bind(listen).await;
            let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
            let address = listener.local_addr()?;
            let (mcp, sse) = (format!("http://{address}/mcp"), format!("http://{address}/sse"));
            match self.json {
                true => print_line(&json!({"mcp": mcp, "sse": sse, "pid": std::process::id()}))?,
                false => eprintln!(
                    "mcp-flow replays {} at {mcp}. Press ctrl-c to stop.",
                    self.file.display()
                ),
            }
            ReplayServer::new(tape, options).serve(listener, stop).await;
            anyhow::Ok(())
        })?;
        runtime.shutdown_background();
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads a cassette, and says what is odd about it.
pub(crate) fn read(file: &Path) -> anyhow::Result<Cassette> {
    let cassette = Cassette::read(file).map_err(|error| {
        let error = anyhow::Error::from(error);
        Failure::new(Exit::Usage, format!("{}: {error:#}", file.display()))
    })?;
    for remark in &cassette.remarks {
        eprintln!("mcp-flow: {}: {}", file.display(), sanitize(remark));
    }
    Ok(cassette)
}
