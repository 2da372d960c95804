//! Recording and replaying over standard input and output.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::process::Command;

use crate::format::Side;
use crate::player::Player;
use crate::recorder::Recorder;
use crate::tap::LineTap;

/// Starts a server, and relays between it and a client until both have ended.
///
/// Bytes are passed on as they arrive, before they are recorded.
pub async fn relay_stdio(
    command: &[OsString],
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
    recorder: &Recorder,
) -> io::Result<ExitStatus> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::other("no command given"));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let to_server = copy(input, stdin, Side::Client, recorder);
    let to_client = copy(stdout, output, Side::Server, recorder);
    tokio::pin!(to_server, to_client);
    let mut has_input = true;
    loop {
        tokio::select! {
            // The server's input is closed with it; what it still sends is relayed.
            _ = &mut to_server, if has_input => has_input = false,
            _ = &mut to_client => break,
        }
    }
    // A server that has closed its output has little left to do.
    match tokio::time::timeout(EXIT_TIME, child.wait()).await {
        Ok(status) => status,
        Err(_) => {
            child.start_kill()?;
            child.wait().await
        }
    }
}

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
        // Before it is passed on: an answer must not seem older than its question.
        let at = recorder.now();
        if let Err(error) = to.write_all(&buffer[..read]).await {
            break Err(error);
        }
        if let Err(error) = to.flush().await {
            break Err(error);
        }
        tap.push(&buffer[..read], &mut pieces);
        for piece in pieces.drain(..) {
            recorder.record_at(at, side, 1, None, piece).await;
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
    loop {
        let read = input.read(&mut buffer).await?;
        pending.extend_from_slice(&buffer[..read]);
        if read == 0 && !pending.ends_with(b"\n") {
            pending.push(b'\n');
        }
        let mut start = 0;
        while let Some(end) = pending[start..].iter().position(|byte| *byte == b'\n') {
            let line = pending[start..start + end].trim_ascii().to_vec();
            start += end + 1;
            if line.is_empty() {
                continue;
            }
            let (_, replies) = player.receive(&line);
            for reply in replies {
                if !reply.delay.is_zero() {
                    output.flush().await?;
                    tokio::time::sleep(reply.delay).await;
                }
                output.write_all(reply.message.to_string().as_bytes()).await?;
                output.write_all(b"\n").await?;
            }
        }
        pending.drain(..start);
        output.flush().await?;
        if pending.len() > MAX_LINE {
            return Err(io::Error::other(format!("a message of more than {MAX_LINE} bytes")));
        }
        if read == 0 {
            return Ok(());
        }
    }
}

const READ_SIZE: usize = 64 * 1024;

/// Limit on a message of the client.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// Time for a server to exit after it has closed its output.
const EXIT_TIME: Duration = Duration::from_secs(5);
