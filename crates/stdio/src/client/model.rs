//! A command that answers like a model.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::guard::models::Backend;
use mcp_flow_client::model::{CreateMessage, Role, SampleResult, SamplingContent};
use mcp_flow_client::{Revision, neutral};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::timeout;

/// A command that answers like a model: the request goes to its standard input as JSON, in the
/// form of `sampling/createMessage`; what it writes to its standard output is the answer, as a
/// result in the form of the protocol or as plain text.
#[derive(Clone, Debug)]
pub struct CommandModel {
    name: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl CommandModel {
    /// A program, looked for in `PATH`, which answers under this name.
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
            // Whoever stops waiting stops the command.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(mut stderr)) = pipes else {
            return Err("the command has no pipes".to_owned());
        };
        let writing = async move {
            // One that does not read its input may still answer.
            let _ = stdin.write_all(&input).await;
        };
        let reading = async {
            let mut output = Vec::new();
            let read = stdout.take(LONGEST + 1).read_to_end(&mut output).await;
            read.map(|_| output).map_err(|error| error.to_string())
        };
        // Beside the rest, so that the command is not held up by what it complains of.
        let complaining = tokio::spawn(async move {
            let mut complaint = Vec::new();
            let _ = (&mut stderr).take(LONGEST_COMPLAINT).read_to_end(&mut complaint).await;
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            complaint
        });
        let ((), output) = tokio::join!(writing, reading);
        let output = output?;
        if output.len() as u64 > LONGEST {
            return Err(format!("the answer has more than {LONGEST} bytes"));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output);
        if !status.success() {
            // Something that the command has left running may keep its end open.
            let complaint = timeout(GRACE, complaining).await.ok().and_then(Result::ok);
            let complaint = complaint.unwrap_or_default();
            let complaint = String::from_utf8_lossy(&complaint);
            let said = [complaint.trim(), text.trim()].into_iter().find(|said| !said.is_empty());
            let said = said.unwrap_or("it wrote nothing to standard error");
            let program = self.program.display();
            return Err(format!("{program} failed ({status}): {}", neutral::shorten(said, 200)));
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

    fn takes_tools(&self) -> bool {
        true
    }
}

/// Limit on the bytes read of a command's stderr; the rest is discarded.
const LONGEST_COMPLAINT: u64 = 64 << 10;

/// Time limit for the stderr of a command that has ended.
const GRACE: Duration = Duration::from_secs(1);

/// How long an answer may be, in bytes.
const LONGEST: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use mcp_flow_client::guard::models::Backend as _;
    use mcp_flow_client::model::CreateMessage;

    use super::CommandModel;

    /// PAT-055: a command that fails says why.
    #[tokio::test]
    async fn what_a_failed_command_complains_of_is_told() {
        for (script, words) in [
            ("echo no licence >&2; exit 3", "sh failed (exit status: 3): no licence"),
            ("echo out of paper; exit 1", "out of paper"),
            ("exit 3", "it wrote nothing to standard error"),
        ] {
            let model = CommandModel::new("broken", "sh").arguments(["-c", script]);
            let told = model.ask(CreateMessage::default()).await.unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
