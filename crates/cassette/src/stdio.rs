//! Recording and replaying over standard input and output.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::format::Side;
use crate::player::{Player, Received};
use crate::recorder::Recorder;
use crate::schedule::{Schedule, sleep_until};
use crate::tap::LineTap;

/// A server that was started to be recorded.
#[derive(Debug)]
pub struct StdioRelay {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl StdioRelay {
    /// Starts the server.
    pub fn spawn(command: &[OsString]) -> io::Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(io::Error::other("no command given"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server has no pipes"));
        };
        Ok(Self { child, input, output })
    }

    /// Relays between the server and a client until both have ended. When `stop` completes, the server
    /// gets SIGTERM, if the system has it, and time to exit.
    pub async fn run(
        self,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
        recorder: &Recorder,
        stop: impl Future<Output = ()>,
    ) -> io::Result<ExitStatus> {
        let mut child = self.child;
        let to_server = copy(input, self.input, Side::Client, recorder);
        let to_client = copy(self.output, output, Side::Server, recorder);
        tokio::pin!(to_server, to_client, stop);
        let (mut has_input, mut deadline) = (true, None);
        loop {
            tokio::select! {
                // The server's input is closed with it; what it still sends is relayed.
                _ = &mut to_server, if has_input => has_input = false,
                _ = &mut to_client => break,
                () = &mut stop, if deadline.is_none() => {
                    terminate(&child);
                    deadline = Some(Instant::now() + EXIT_TIME);
                }
                () = sleep_until(deadline) => break,
            }
        }
        // A server that has closed its output has little left to do.
        let until = deadline.unwrap_or_else(|| Instant::now() + EXIT_TIME);
        match tokio::time::timeout_at(until, child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                child.start_kill()?;
                child.wait().await
            }
        }
    }
}

/// Asks a server to exit by SIGTERM.
#[cfg(unix)]
fn terminate(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(id) = id.and_then(Pid::from_raw) {
        // It may have just exited.
        let _ = kill_process(id, Signal::TERM);
    }
}

/// Does nothing: the server has the same console, whose ctrl-c it gets as well.
#[cfg(windows)]
fn terminate(_: &Child) {}

/// Copies until the end, and records what was copied.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: Side,
    recorder: &Recorder,
) -> io::Result<()> {
    let (mut buffer, mut tap, mut pieces) = (vec![0; READ_SIZE], LineTap::default(), Vec::new());
    let ended = loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) => break Ok(()),
            Ok(read) => read,
            Err(error) => break Err(error),
        };
        // Before it is passed on: an answer must not be recorded before its question.
        tap.push(&buffer[..read], &mut pieces);
        for piece in pieces.drain(..) {
            recorder.record(side, 1, None, piece).await;
        }
        if let Err(error) = to.write_all(&buffer[..read]).await {
            break Err(error);
        }
        if let Err(error) = to.flush().await {
            break Err(error);
        }
    };
    if let Some(piece) = tap.finish() {
        recorder.record(side, 1, None, piece).await;
    }
    let _ = to.shutdown().await;
    ended
}

/// Answers a client as recorded until it closes its output.
pub async fn replay_stdio(
    mut player: Player,
    mut input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (mut buffer, mut pending) = (vec![0; READ_SIZE], Vec::new());
    let mut output = BufWriter::new(output);
    let (mut schedule, mut has_input) = (Schedule::default(), true);
    while has_input || schedule.len() > 0 {
        tokio::select! {
            biased;
            () = sleep_until(schedule.next_due()), if schedule.len() > 0 => {}
            read = input.read(&mut buffer), if has_input => {
                let read = read?;
                pending.extend_from_slice(&buffer[..read]);
                has_input = read > 0;
                if !has_input && !pending.ends_with(b"\n") {
                    pending.push(b'\n');
                }
            }
        }
        let mut start = 0;
        while let Some(end) = pending[start..].iter().position(|byte| *byte == b'\n') {
            let line = pending[start..start + end].trim_ascii();
            start += end + 1;
            if !line.is_empty() {
                let Received { replies, cancelled, .. } = player.receive(line);
                cancelled.iter().for_each(|id| schedule.cancel(id));
                schedule.push(replies);
            }
            write_due(&mut schedule, &mut output).await?;
        }
        pending.drain(..start);
        write_due(&mut schedule, &mut output).await?;
        output.flush().await?;
        if pending.len() > MAX_LINE {
            return Err(io::Error::other(format!("a message of more than {MAX_LINE} bytes")));
        }
    }
    Ok(())
}

async fn write_due(
    schedule: &mut Schedule,
    output: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    while let Some(reply) = schedule.pop() {
        output.write_all(reply.message.to_string().as_bytes()).await?;
        output.write_all(b"\n").await?;
    }
    Ok(())
}

const READ_SIZE: usize = 64 * 1024;

/// Limit on a message of the client.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Time for a server to exit after it has closed its output.
const EXIT_TIME: Duration = Duration::from_secs(5);
