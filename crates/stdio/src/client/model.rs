//! A command that answers like a model.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;

use futures_util::future::BoxFuture;
use mcp_flow_client::guard::models::Backend;
use mcp_flow_client::model::{CreateMessage, Role, SampleResult, SamplingContent};
use mcp_flow_client::{Revision, neutral};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

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
            .stderr(Stdio::null())
            // Whoever stops waiting stops the command.
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{} cannot be started: {error}", self.program.display()))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
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
        let ((), output) = tokio::join!(writing, reading);
        let output = output?;
        if output.len() as u64 > LONGEST {
            return Err(format!("the answer has more than {LONGEST} bytes"));
        }
        let status = child.wait().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output);
        if !status.success() {
            return Err(format!("{status}: {}", neutral::shorten(text.trim(), 200)));
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

/// How long an answer may be, in bytes.
const LONGEST: u64 = 4 << 20;
