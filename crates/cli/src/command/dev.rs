//! `mcp-flow dev`: restarts a server when its files change, and keeps its clients connected.

mod restarting;
mod source_watch;
mod start_writes;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mcp_flow::client::{Backoff, Program, Stderr};
use mcp_flow_gateway::{Gateway, UpstreamSettings};

use crate::arguments::LogOptions;
use crate::exit::{Exit, Failure};
use crate::log;
use crate::server::relay;
use crate::server::serving::ServingOptions;
use restarting::Restarting;
use source_watch::SourceWatch;
use start_writes::StartWrites;

/// Run a server under development: restart it when its files change, and keep clients connected
///
/// Clients see the new tools by list_changed; their log level and subscriptions are restored. Calls
/// have 2 seconds to finish, then they fail with UPSTREAM_LOST. A file that the server writes whenever it
/// starts does not restart it.
#[derive(Debug, clap::Args)]
pub(crate) struct Dev {
    #[command(flatten)]
    serving: ServingOptions,

    /// Directory to watch; may be repeated [default: the current one]
    #[arg(long = "watch", value_name = "DIR")]
    watched: Vec<PathBuf>,

    /// Name of files and directories not to watch, besides hidden ones, target, node_modules and the
    /// like; * stands for any characters; may be repeated
    #[arg(long = "ignore", value_name = "NAME")]
    ignored: Vec<String>,

    /// Command that starts the server
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Dev {
    pub(crate) fn run(self, log: LogOptions) -> anyhow::Result<ExitCode> {
        log::apply(log, &crate::configuration::File::default().log);
        if let Some(listen) = self.serving.listen.filter(|listen| !listen.ip().is_loopback()) {
            let message =
                format!("{listen} is public; a server under development is for this machine");
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let (program, arguments) = self.command.split_first().context("no command given")?;
        // Its output is what its developer wants to see.
        let program = Program::new(program).arguments(arguments).stderr(Stderr::Inherit);
        let restarting = Arc::new(Restarting::new(program));
        let folders = match self.watched.is_empty() {
            true => vec![PathBuf::from(".")],
            false => self.watched.clone(),
        };
        let mut watch = SourceWatch::open(&folders, &self.ignored)?;
        let mut upstream = UpstreamSettings::new("server", restarting.clone());
        upstream.idle_timeout = FOREVER;
        // A compiler may have to run first.
        upstream.connect_timeout = START_TIME;
        upstream.reconnect = Backoff { attempts: 1, initial_attempts: 1, ..Backoff::default() };
        let runtime = self.serving.runtime()?;
        let ended = runtime.block_on(relay::serve(upstream, &self.serving, move |gateway| {
            let gateway = gateway.clone();
            tokio::spawn(async move {
                let mut writes = StartWrites::default();
                while let Some(changed) = watch.changed().await {
                    let reason = writes.reason(changed, restarting.started());
                    let Some(changed) = reason else { continue };
                    eprintln!("mcp-flow: {} changed, restarting the server", changed.display());
                    restart(&gateway, &restarting).await;
                }
            });
        }));
        runtime.shutdown_background();
        ended
    }
}

/// Lets calls finish, ends the server, and starts it again.
async fn restart(gateway: &Gateway, program: &Restarting) {
    let is_idle = || gateway.status().iter().all(|upstream| upstream.calls.running == 0);
    let drained = async {
        while !is_idle() {
            tokio::time::sleep(POLL).await;
        }
    };
    let _ = tokio::time::timeout(DRAIN_TIME, drained).await;
    program.close().await;
    gateway.refresh();
}

/// Time for running calls to finish.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Interval of looking for running calls.
const POLL: Duration = Duration::from_millis(20);

/// Time for the server to start.
const START_TIME: Duration = Duration::from_secs(120);

/// A year.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
