//! A server process under measurement, usually connected by two pipes.
//!
//! Everything here blocks. A single-threaded client leaves the most of a small machine to the
//! server.

use std::{
    io::Write,
    panic,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{lines::Lines, placement::Placement};

/// A server process, killed on drop.
pub(crate) struct Peer(Child);

/// The client's ends of the pipes. Closing `requests` ends the server.
pub(crate) struct Pipes {
    pub(crate) requests: ChildStdin,
    pub(crate) replies: Lines<ChildStdout>,
}

impl Peer {
    /// Starts a server, completes the handshake, and waits until it is idle.
    pub(crate) fn start(command: Command, placement: Placement) -> anyhow::Result<(Self, Pipes)> {
        Self::start_as(&json!({}), command, placement)
    }

    /// Like [`start`](Self::start), for a client with capabilities.
    pub(crate) fn start_as(
        capabilities: &Value,
        mut command: Command,
        placement: Placement,
    ) -> anyhow::Result<(Self, Pipes)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut peer = Self::spawn(&mut command, placement)?;
        let mut pipes = Pipes {
            requests: peer.0.stdin.take().expect("stdin was asked to be piped"),
            replies: Lines::new(peer.0.stdout.take().expect("stdout was asked to be piped")),
        };
        peer.within(HANDSHAKE_LIMIT, || pipes.shake_hands(capabilities))
            .with_context(|| format!("no handshake with {command:?}"))?;
        thread::sleep(SETTLE_TIME);
        Ok((peer, pipes))
    }

    /// Starts a server that listens, and returns the output to which it will print its address.
    pub(crate) fn start_listening(
        mut command: Command,
        placement: Placement,
    ) -> anyhow::Result<(Self, ChildStdout)> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut peer = Self::spawn(&mut command, placement)?;
        let output = peer.0.stdout.take().expect("stdout was asked to be piped");
        Ok((peer, output))
    }

    fn spawn(command: &mut Command, placement: Placement) -> anyhow::Result<Self> {
        let child = placement.spawn(command);
        child.map(Self).with_context(|| format!("cannot start {command:?}"))
    }

    pub(crate) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Stops the server and waits until it has exited.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(process.context("a process has a number")?, Signal::TERM)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "the server ended with {status} when it was asked to end");
        Ok(())
    }

    /// Runs work that waits for the server, and kills the server on a timeout.
    ///
    /// Killing it closes its pipes, which unblocks the work.
    pub(crate) fn within<T: Send>(
        &mut self,
        limit: Duration,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let (working, done) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let outcome = work();
                drop(working);
                outcome
            });
            let is_late = done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                self.0.kill().context("cannot kill a server that takes too long")?;
            }
            match worker.join() {
                Ok(outcome) if is_late => {
                    outcome.with_context(|| format!("the server was killed after {limit:?}"))
                }
                Ok(outcome) => outcome,
                Err(panic) => panic::resume_unwind(panic),
            }
        })
    }

    /// Closes the server's input and passes on its remaining output.
    pub(crate) fn finish(
        mut self,
        pipes: Pipes,
        mut each: impl FnMut(&[u8]) -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<()> {
        let Pipes { requests, mut replies } = pipes;
        drop(requests);
        self.within(EXIT_LIMIT, || {
            while replies.read_batch(&mut each)? {}
            Ok(())
        })
        .context("the server did not end well after its input was closed")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // An error means that it has exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pipes {
    fn shake_hands(&mut self, capabilities: &Value) -> anyhow::Result<()> {
        let initialize = json!({
            "jsonrpc": "2.0",
            "id": "initialize",
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": { "name": "mcp-flow-benches", "version": env!("CARGO_PKG_VERSION") },
            },
        });
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        writeln!(self.requests, "{initialize}")?;
        let reply = self.read_message()?;
        if reply["result"]["protocolVersion"].as_str().is_none() {
            bail!("initialize was answered with {reply}");
        }
        writeln!(self.requests, "{initialized}")?;
        Ok(())
    }

    /// Reads the next message with an id: a reply, or a request of the server. Messages read along
    /// with it are dropped, so the server must not send more than one.
    pub(crate) fn read_message(&mut self) -> anyhow::Result<Value> {
        let mut reply = None;
        while reply.is_none() {
            let more = self.replies.read_batch(|line| {
                let message: Value = serde_json::from_slice(line)?;
                if message.get("id").is_some() {
                    reply = Some(message);
                }
                anyhow::Ok(())
            })?;
            if !more {
                bail!("the server closed its output");
            }
        }
        reply.context("the loop ends with a reply")
    }
}

/// Time limit for a server to become ready.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
const EXIT_LIMIT: Duration = Duration::from_secs(30);

/// Time for a server to become idle again before the next measurement.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(100);
