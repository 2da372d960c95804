//! The process that is verified.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::format::{Parsed, messages_in};
use crate::tap::{is_kept, sha256};

/// A server that runs.
pub(super) struct LiveServer {
    child: Child,
    input: Option<ChildStdin>,
    output: mpsc::Receiver<LiveOutput>,
}

/// A line that a server wrote, or a part of it.
#[derive(Debug)]
pub(super) enum LiveOutput {
    Message(Box<LiveMessage>),
    /// The beginning of what is no message.
    Text(String),
}

/// A message of a server.
#[derive(Debug)]
pub(super) struct LiveMessage {
    pub(super) parsed: Parsed,
    pub(super) bytes: u64,
    /// Digest, if recorders would not keep the message.
    pub(super) sha256: Option<String>,
}

impl LiveServer {
    pub(super) fn start(command: &[OsString]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("no command given"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let (sender, received) = mpsc::channel(1024);
        tokio::spawn(async move {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut line).await {
                for output in read(line.strip_suffix(b"\n").unwrap_or(&line)) {
                    if sender.send(output).await.is_err() {
                        return;
                    }
                }
                line.clear();
            }
        });
        Ok(Self { child, input, output: received })
    }

    /// Sends a line. A server that does not read it gets no more.
    pub(super) async fn send(&mut self, line: &str, limit: Duration) {
        if let Some(input) = &mut self.input {
            let sent = tokio::time::timeout(limit, input.write_all(line.as_bytes()));
            if !matches!(sent.await, Ok(Ok(()))) {
                self.input = None;
            }
        }
    }

    /// Receives a message, or what is none; nothing at the end.
    pub(super) async fn receive(&mut self) -> Option<LiveOutput> {
        self.output.recv().await
    }

    /// Closes the input, so that the server exits.
    pub(super) fn close(&mut self) {
        self.input = None;
    }

    /// Waits until the server has exited, and kills it if it has not.
    pub(super) async fn end(mut self, until: Instant) {
        if tokio::time::timeout_at(until, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Reads a line.
fn read(line: &[u8]) -> Vec<LiveOutput> {
    if line.trim_ascii().is_empty() {
        return Vec::new();
    }
    let messages = serde_json::from_slice::<Box<RawValue>>(line).map(|raw| messages_in(&raw));
    let messages = messages.unwrap_or_default();
    if messages.is_empty() {
        let text = String::from_utf8_lossy(&line[..line.len().min(MAX_TEXT)]);
        return vec![LiveOutput::Text(text.trim().to_owned())];
    }
    let sha256 = (!is_kept(line)).then(|| sha256(line));
    let message = |parsed| {
        let (bytes, sha256) = (line.len() as u64, sha256.clone());
        LiveOutput::Message(Box::new(LiveMessage { parsed, bytes, sha256 }))
    };
    messages.into_iter().map(message).collect()
}

/// Part of what is no message that is kept.
const MAX_TEXT: usize = 200;
