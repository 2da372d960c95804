//! `mcp-flow record`: records the traffic between a client and a server.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::client::HttpOptions;
use mcp_flow_cassette::{HttpRelay, Masker, Recorder, RecordingFile, RecordingSummary, StdioRelay};
use serde_json::json;
use tokio::net::TcpListener;

use crate::client::connect::TlsOptions;
use crate::command::serve::{check_public, print_line};
use crate::configuration::socket_address;
use crate::exit::{Exit, Failure};
use crate::platform::exit_code;

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

    /// URL of the server, with http, https, ws or wss
    #[arg(long, value_name = "URL", requires = "listen", conflicts_with = "command")]
    target: Option<String>,

    /// Address for clients; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", requires = "target", conflicts_with = "command")]
    #[arg(value_parser = socket_address)]
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

    /// Opens the file. An earlier recording in it is kept until everything else is ready.
    fn open(&self) -> anyhow::Result<RecordingFile> {
        RecordingFile::open(&self.file).map_err(|error| self.failure(&error))
    }

    fn begin(
        &self,
        file: RecordingFile,
        transport: &str,
        target: &str,
    ) -> anyhow::Result<Recorder> {
        file.begin(transport, target, &self.masked).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &io::Error) -> anyhow::Error {
        let message = format!("cannot create {}: {error}", self.file.display());
        Failure::new(Exit::Usage, message).into()
    }

    #[expect(clippy::disallowed_methods, reason = "the recorded server's output goes there")]
    fn record_stdio(&self) -> anyhow::Result<ExitCode> {
        let words: Vec<_> =
            self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let shown = Masker::new(&self.masked).mask_command(&words);
        let file = self.open()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
        let (status, recorder) = runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal()?;
            let relay = StdioRelay::spawn(&self.command);
            let relay = relay.with_context(|| format!("cannot start {shown}"))?;
            let recorder = self.begin(file, "stdio", &shown)?;
            let status = relay.run(input, output, &recorder, stop).await;
            anyhow::Ok((status, recorder))
        })?;
        // A pending read of standard input cannot be cancelled; do not wait for it.
        runtime.shutdown_background();
        report(&recorder.finish());
        let status = status.context("lost the server")?;
        // The host sees how its server ended.
        let code = exit_code(status).and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }

    fn record_http(&self, target: &str, listen: SocketAddr) -> anyhow::Result<ExitCode> {
        check_public(listen, self.insecure)?;
        let options = HttpOptions::new().trust(self.tls.trust());
        let relay = HttpRelay::new(target, &options);
        let relay = relay.map_err(|bad| Failure::new(Exit::Usage, bad.to_string()))?;
        let file = self.open()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let recorder = runtime.block_on(async {
            let stop = mcp_flow::stdio::stop_signal().context("cannot listen for signals")?;
            let listener = TcpListener::bind(listen).await;
            let listener = listener.with_context(|| format!("cannot listen on {listen}"))?;
            let recorder = self.begin(file, "http", target)?;
            let url = relay.url(listener.local_addr()?);
            let shown = Masker::new(&self.masked).mask_text(target);
            match self.json {
                true => print_line(&json!({"mcp": url, "pid": std::process::id()}))?,
                false => eprintln!("mcp-flow records {shown} at {url}. Press ctrl-c to stop."),
            }
            relay.serve(listener, &recorder, stop).await;
            anyhow::Ok(recorder)
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
