//! A model backend that runs a command.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::approval::models::Backend;
use mcp_flow_client::model::{CreateMessage, Role, SampleResult, SamplingContent};
use mcp_flow_client::{Revision, sanitize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// A model backend that runs a command for each request. The command reads the params of
/// `sampling/createMessage` as JSON from standard input and writes the result to standard output,
/// as JSON or as plain text.
#[derive(Clone, Debug)]
pub struct CommandModel {
    name: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl CommandModel {
    /// Creates a backend from a program, looked up in `PATH`, under this model name.
    pub fn new(name: impl Into<String>, program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_owned();
        Self { name: name.into(), program, arguments: Vec::new() }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    async fn run(&self, request: CreateMessage) -> Result<SampleResult, String> {
        let input = serde_json::to_vec(&request.wire(Revision::V2025_11_25))
            .map_err(|error| error.to_string())?;
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Dropping the future stops the command.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = pipes else {
            return Err("the command has no pipes".to_owned());
        };
        let write_input = async move {
            // A command may answer without reading its input.
            let _ = stdin.write_all(&input).await;
        };
        let read_output = async {
            let mut output = Vec::new();
            let read = stdout.take(RESULT_LIMIT + 1).read_to_end(&mut output).await;
            read.map(|_| output).map_err(|error| error.to_string())
        };
        // Concurrently, so that the command does not block on a full stderr pipe.
        let stderr_reader = tokio::spawn(async move {
            let mut captured = Vec::new();
            let _ = (&mut stderr).take(STDERR_LIMIT).read_to_end(&mut captured).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            captured
        });
        let ((), output) = tokio::join!(write_input, read_output);
        let output = output?;
        if output.len() as u64 > RESULT_LIMIT {
            return Err(format!("the result is longer than {RESULT_LIMIT} bytes"));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output);
        if !status.success() {
            // A process the command left running may keep the pipe open.
            let captured = timeout(STDERR_TIMEOUT, stderr_reader).await.ok().and_then(Result::ok);
            let captured = captured.unwrap_or_default();
            let captured = String::from_utf8_lossy(&captured);
            let shown = [captured.trim(), text.trim()].into_iter().find(|shown| !shown.is_empty());
            let shown = shown.unwrap_or("it wrote nothing to standard error");
            let program = self.program.display();
            return Err(format!("{program} failed ({status}): {}", sanitize::shorten(shown, 200)));
        }
        Ok(self.read(text.trim()))
    }

    fn read(&self, text: &str) -> SampleResult {
        serde_json::from_str(text).unwrap_or_else(|_| SampleResult {
            role: Role::Assistant,
            content: vec![SamplingContent::from(text)],
            model: self.name.clone(),
            stop_reason: Some("endTurn".to_owned()),
            meta: None,
        })
    }
}

impl Backend for CommandModel {
    fn ask(&self, request: CreateMessage) -> BoxFuture<'_, Result<SampleResult, String>> {
        Box::pin(self.run(request))
    }

    fn supports_tools(&self) -> bool {
        true
    }
}

/// Maximum length of stderr that is read; the rest is discarded.
const STDERR_LIMIT: u64 = 64 << 10;

/// Time limit for reading stderr of a command that has exited.
const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of a result in bytes.
const RESULT_LIMIT: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use mcp_flow_client::approval::models::Backend as _;
    use mcp_flow_client::model::CreateMessage;

    use super::CommandModel;

    /// PAT-055: the error contains the command's stderr.
    #[tokio::test]
    async fn a_failed_command_reports_its_stderr() {
        for (script, words) in [
            ("echo no licence >&2; exit 3", "sh failed (exit status: 3): no licence"),
            ("echo out of paper; exit 1", "out of paper"),
            ("exit 3", "it wrote nothing to standard error"),
        ] {
            let model = CommandModel::new("broken", "sh").arguments(["-c", script]);
            let error = model.ask(CreateMessage::default()).await.unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
