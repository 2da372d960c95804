//! A peer of a real program, over its standard input and output.

use std::path::Path;
use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::peer::Peer;

/// A running program, ended when dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
}

impl Program {
    /// Starts a program and a peer that speaks to it, one message per line.
    pub fn start(program: impl AsRef<Path>, arguments: &[&str]) -> (Self, Peer) {
        let mut child = Command::new(program.as_ref())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the program can be started");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
        let (outgoing, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(mut frame) = incoming.recv().await {
                frame.push(b'\n');
                // A program that has ended reads no more; the test will notice by its silence.
                let _ = stdin.write_all(&frame).await;
            }
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("stdout holds {line:?}: {error}"));
                let _ = outgoing.send(message);
            }
        });
        (Self { child }, Peer::new(frames, messages))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id().expect("the program is running")
    }

    /// Waits until the program has ended.
    pub async fn wait(&mut self) -> ExitStatus {
        self.child.wait().await.expect("the program can be waited for")
    }
}
