//! Running processes: their group, their time, and their output.
//!
//! A supervising task owns the child. It ends all processes of the program when the time is over, when
//! nobody reads any more, and when the program has ended and left others behind.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use super::platform::{Processes, signal_of};
use crate::secret::{MaskedReader, Masker};

/// A program with everything it is started with.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Name for people.
    pub(crate) name: String,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    /// Set if the time counts only while the reader waits, since the output may have any size.
    pub(crate) is_streamed: bool,
    pub(crate) success: Vec<i32>,
    pub(crate) masker: Masker,
}

impl Invocation {
    /// Starts the program. Dropping the reader ends it.
    pub(crate) fn start(self) -> io::Result<ProcessReader> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let (mut child, processes) = Processes::spawn(&mut command)?;
        if let (Some(bytes), Some(mut stdin)) = (self.stdin, child.stdin.take()) {
            tokio::spawn(async move {
                // A program need not read its input.
                let _ = stdin.write_all(&bytes).await;
            });
        }
        let missing = || io::Error::other("the program has no output");
        let (stdout, stderr) =
            (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = oneshot::channel();
        let (exit, exited) = oneshot::channel();
        let deadline = (!self.is_streamed).then(|| Instant::now() + self.timeout);
        let supervisor = Supervisor { child, processes, ended, deadline, is_finished: false };
        // Masked before it is cut, for a part of a secret is not found any more.
        let stderr = MaskedReader::new(stderr, self.masker.clone());
        tokio::spawn(supervisor.run(stderr, errors.clone(), exit));
        Ok(ProcessReader {
            stdout,
            masker: self.masker,
            exited: Some(exited),
            exit: None,
            drain: None,
            is_finished: false,
            errors,
            name: self.name,
            success: self.success,
            timeout: self.timeout,
            is_streamed: self.is_streamed,
            idle: None,
            end: Some(end),
        })
    }
}

/// Way in which a process ended.
#[derive(Clone, Copy, Debug)]
enum Exit {
    Status(ExitStatus),
    TimedOut,
    Lost,
}

struct Supervisor {
    child: Child,
    processes: Processes,
    /// Completes when the reader has waited too long, or is dropped.
    ended: oneshot::Receiver<()>,
    deadline: Option<Instant>,
    /// Set when no process of the program is left.
    is_finished: bool,
}

impl Supervisor {
    async fn run(
        mut self,
        stderr: impl AsyncRead + Send + Unpin + 'static,
        errors: Arc<Mutex<Vec<u8>>>,
        exit: oneshot::Sender<Exit>,
    ) {
        let errors = tokio::spawn(keep_last(stderr, errors));
        let outcome = tokio::select! {
            status = self.child.wait() => match status {
                Ok(status) => Exit::Status(status),
                Err(_) => Exit::Lost,
            },
            () = until(self.deadline) => {
                self.terminate().await;
                Exit::TimedOut
            }
            ended = &mut self.ended => {
                self.terminate().await;
                if ended.is_ok() { Exit::TimedOut } else { Exit::Lost }
            }
        };
        self.kill_all().await;
        self.is_finished = true;
        let _ = timeout(DRAIN, errors).await;
        let _ = exit.send(outcome);
    }

    /// Asks the processes to end, and kills what is left after a while.
    async fn terminate(&mut self) {
        if self.processes.terminate() {
            let _ = timeout(GRACE, self.child.wait()).await;
        }
        self.processes.kill();
        // Fails if it has ended.
        let _ = self.child.start_kill();
        let _ = self.child.wait().await;
    }

    /// Kills what the program has left behind, in its group and outside.
    async fn kill_all(&self) {
        let processes = self.processes;
        for _ in 0..KILL_ROUNDS {
            // Reads of the processes that began meanwhile, which may be many.
            let killed = spawn_blocking(move || processes.kill());
            // Those that were killed may have started others.
            if !killed.await.unwrap_or(false) {
                return;
            }
            sleep(KILL_PAUSE).await;
        }
    }
}

/// Ends the processes also if the server stops, which drops its tasks: nothing can wait any more.
impl Drop for Supervisor {
    fn drop(&mut self) {
        for _ in 0..KILL_ROUNDS {
            if self.is_finished || !self.processes.kill() {
                return;
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Keeps the last bytes of the error output.
async fn keep_last(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 8 * 1024];
    while let Ok(length) = stderr.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        let mut kept = kept.lock();
        kept.extend_from_slice(&buffer[..length]);
        let excess = kept.len().saturating_sub(KEPT_ERRORS);
        kept.drain(..excess);
    }
}

/// Output of a program. It ends with an error if the program fails.
pub(crate) struct ProcessReader {
    stdout: ChildStdout,
    masker: Masker,
    exited: Option<oneshot::Receiver<Exit>>,
    exit: Option<Exit>,
    /// Time for output that is still in the pipe after the exit.
    drain: Option<Pin<Box<Sleep>>>,
    is_finished: bool,
    errors: Arc<Mutex<Vec<u8>>>,
    name: String,
    success: Vec<i32>,
    timeout: Duration,
    is_streamed: bool,
    /// Time for which the reader waits, if the output is streamed.
    idle: Option<Pin<Box<Sleep>>>,
    /// Ends the process, as does dropping it with the reader.
    end: Option<oneshot::Sender<()>>,
}

impl ProcessReader {
    /// Returns what masks the secrets that the program was given.
    pub(crate) fn masker(&self) -> Masker {
        self.masker.clone()
    }

    /// Reads more output. Returns false at its end.
    fn poll_output(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stdout).poll_read(context, buffer) {
            return Poll::Ready(read.map(|()| buffer.filled().len() > before));
        }
        // Somebody else may hold the pipe open after the program has ended.
        ready!(self.poll_exit(context));
        let drain = self.drain.get_or_insert_with(|| Box::pin(sleep(DRAIN)));
        ready!(drain.as_mut().poll(context));
        Poll::Ready(Ok(false))
    }

    fn poll_exit(&mut self, context: &mut Context<'_>) -> Poll<Exit> {
        if let Some(exited) = &mut self.exited {
            let exit = ready!(Pin::new(exited).poll(context)).unwrap_or(Exit::Lost);
            (self.exit, self.exited) = (Some(exit), None);
        }
        Poll::Ready(self.exit.unwrap_or(Exit::Lost))
    }

    /// Describes a failure; `None` if the program succeeded.
    fn failure(&self, exit: Exit) -> Option<String> {
        let name = &self.name;
        let what = match exit {
            Exit::Status(status)
                if status.code().is_some_and(|code| self.success.contains(&code)) =>
            {
                return None;
            }
            Exit::Status(status) => match (status.code(), signal_of(status)) {
                (Some(code), _) => format!("{name} exited with code {code}"),
                (None, Some(signal)) => format!("{name} was terminated by signal {signal}"),
                (None, None) => format!("{name} failed"),
            },
            Exit::TimedOut if self.is_streamed => {
                format!("{name} wrote nothing for {:?} and was terminated", self.timeout)
            }
            Exit::TimedOut => {
                format!("{name} did not finish within {:?} and was terminated", self.timeout)
            }
            Exit::Lost => format!("{name} was terminated"),
        };
        let errors = String::from_utf8_lossy(&self.errors.lock()).into_owned();
        let errors = errors.trim();
        Some(if errors.is_empty() { what } else { format!("{what}: {errors}") })
    }
}

impl ProcessReader {
    /// Reads output, then the end of the program.
    fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_finished {
            if ready!(self.poll_output(context, buffer))? {
                return Poll::Ready(Ok(()));
            }
            self.is_finished = true;
        }
        let exit = ready!(self.poll_exit(context));
        Poll::Ready(match self.failure(exit) {
            None => Ok(()),
            Some(message) => Err(io::Error::other(message)),
        })
    }

    /// Ends the program if the reader has waited too long.
    fn poll_idle(&mut self, context: &mut Context<'_>) {
        let time = self.timeout;
        let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(time)));
        if idle.as_mut().poll(context).is_ready()
            && let Some(end) = self.end.take()
        {
            // Fails if it has ended by itself.
            let _ = end.send(());
        }
    }
}

impl AsyncRead for ProcessReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let polled = this.poll_next(context, buffer);
        match &polled {
            Poll::Ready(_) => this.idle = None,
            Poll::Pending if this.is_streamed && this.end.is_some() => this.poll_idle(context),
            Poll::Pending => {}
        }
        polled
    }
}

/// Time between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(2);

/// Times that processes are searched for and killed, until there are none.
const KILL_ROUNDS: usize = 100;

const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Time for output that is left after the end.
const DRAIN: Duration = Duration::from_millis(250);

/// Bytes of the error output that a failure shows.
const KEPT_ERRORS: usize = 8 * 1024;
