//! The process that is verified.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use crate::format::{Parsed, messages_in};
use crate::tap::{MAX_MESSAGE, sha256};

/// A server that runs.
pub(super) struct LiveServer {
    child: Child,
    input: Option<ChildStdin>,
    messages: mpsc::Receiver<LiveMessage>,
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
        let (sender, messages) = mpsc::channel(1024);
        tokio::spawn(async move {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = output.read_until(b'\n', &mut line).await {
                let text = line.strip_suffix(b"\n").unwrap_or(&line);
                let sha256 = (text.len() > MAX_MESSAGE).then(|| sha256(text));
                if let Ok(raw) = serde_json::from_slice::<Box<RawValue>>(text) {
                    for parsed in messages_in(&raw) {
                        let (bytes, sha256) = (text.len() as u64, sha256.clone());
                        let message = LiveMessage { parsed, bytes, sha256 };
                        if sender.send(message).await.is_err() {
                            return;
                        }
                    }
                }
                line.clear();
            }
        });
        Ok(Self { child, input, messages })
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

    /// Receives a message; none at the end.
    pub(super) async fn receive(&mut self) -> Option<LiveMessage> {
        self.messages.recv().await
    }

    /// Closes the input, and waits until the server exits.
    pub(super) async fn end(mut self) {
        drop(self.input.take());
        if tokio::time::timeout(EXIT_TIME, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}

/// Time for the server to exit.
const EXIT_TIME: Duration = Duration::from_secs(3);
