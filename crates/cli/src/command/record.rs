//! `mcp-flow record`: records the traffic between a client and a server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::client::HttpOptions;
use mcp_flow_cassette::{HttpRelay, Recorder, RecordingSummary, relay_stdio};
use serde_json::json;
use tokio::net::TcpListener;

use crate::client::connect::TlsOptions;
use crate::command::serve::{check_public, print_line};
use crate::configuration::socket_address;
use crate::exit::{Exit, Failure};

/// Record the traffic between a client and a server to a file (a cassette)
///
/// Put it before a server's command, or between a client and a URL. Messages pass unchanged; secrets
/// are masked in the file. `mcp-flow replay` answers as recorded, `mcp-flow verify` checks a server
/// against the recording.
#[derive(Debug, clap::Args)]
pub(crate) struct Record {
    /// File to create
    file: PathBuf,

    /// Mask the values of members with this name, besides passwords, tokens, keys and the like; may be
    /// repeated
    #[arg(long = "mask", value_name = "NAME")]
    masked: Vec<String>,

    /// URL of the server
    #[arg(long, value_name = "URL", requires = "listen", conflicts_with = "command")]
    target: Option<String>,

    /// Address for clients; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", requires = "target", value_parser = socket_address)]
    listen: Option<SocketAddr>,

    /// Print the URL for clients as one line of JSON when ready
    #[arg(long, requires = "listen")]
    json: bool,

    /// Allow listening on a public address
    #[arg(long, requires = "listen")]
    insecure: bool,

    #[command(flatten)]
    tls: TlsOptions,

    /// Command that starts the server
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "target")]
    command: Vec<OsString>,
}

impl Record {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match (&self.target, self.listen) {
            (Some(target), Some(listen)) => self.record_http(target, listen),
            _ => self.record_stdio(),
        }
    }

    fn recorder(&self, transport: &str, target: &str) -> anyhow::Result<Recorder> {
        Recorder::create(&self.file, transport, target, &self.masked).map_err(|error| {
            let problem = match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    "the file there is no recording; name another".to_owned()
                }
                _ => error.to_string(),
            };
            let message = format!("cannot create {}: {problem}", self.file.display());
            Failure::new(Exit::Usage, message).into()
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the recorded server's output goes there")]
    fn record_stdio(&self) -> anyhow::Result<ExitCode> {
        let words: Vec<_> = self.command.iter().map(|word| word.to_string_lossy()).collect();
        let recorder = self.recorder("stdio", &words.join(" "))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        let relayed = runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal()?;
            let relaying = relay_stdio(&self.command, input, output, &recorder);
            tokio::select! {
                ended = relaying => ended.map(Some),
                () = stop => Ok(None),
            }
        });
        // A pending read of standard input cannot be cancelled; do not wait for it.
        runtime.shutdown_background();
        report(&recorder.finish());
        let status = relayed.with_context(|| format!("cannot start {}", words.join(" ")))?;
        let code = status.and_then(|status| status.code());
        let code = code.and_then(|code| u8::try_from(code).ok());
        // The host sees how its server ended.
        Ok(code.map_or(ExitCode::SUCCESS, ExitCode::from))
    }

    fn record_http(&self, target: &str, listen: SocketAddr) -> anyhow::Result<ExitCode> {
        check_public(listen, self.insecure)?;
        let options = HttpOptions::new().trust(self.tls.trust());
        let recorder = self.recorder("http", target)?;
        let relay = HttpRelay::new(target, &options, recorder.clone());
        let relay = relay.map_err(|bad| {
            let _ = std::fs::remove_file(&self.file);
            Failure::new(Exit::Usage, bad.to_string())
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal().context("cannot listen for signals")?;
            let listener = TcpListener::bind(listen).await;
            let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
            let url = format!("http://{}{}", listener.local_addr()?, relay.path());
            match self.json {
                true => print_line(&json!({"mcp": url, "pid": std::process::id()}))?,
                false => eprintln!("mcp-flow records {target} at {url}. Press ctrl-c to stop."),
            }
            relay.serve(listener, stop).await;
            anyhow::Ok(())
        })?;
        runtime.shutdown_timeout(std::time::Duration::from_secs(1));
        report(&recorder.finish());
        Ok(ExitCode::SUCCESS)
    }
}

fn report(summary: &RecordingSummary) {
    if let Some(reason) = &summary.stopped {
        eprintln!("mcp-flow: recording stopped after {} messages: {reason}", summary.messages);
    }
}
