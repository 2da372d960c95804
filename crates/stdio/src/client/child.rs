//! Servers spawned as child processes.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::sanitize;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::io_task::spawn_io_task;
use crate::platform::ProcessGroup;

/// A server program, spawned for every connection.
///
/// ```
/// use mcp_flow_stdio::client::Program;
///
/// let server = Program::new("npx").arguments(["-y", "some-server"]).environment("TOKEN", "abc");
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    folder: Option<std::path::PathBuf>,
    stderr: Stderr,
    target: String,
}

/// Handling of the server's standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// Keep the last lines and add them to error messages.
    #[default]
    Keep,
    /// Inherit standard error.
    Inherit,
    /// Discard the output.
    Discard,
}

impl Program {
    /// Creates a program that is looked up in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let program = program.as_ref().to_owned();
        Self {
            target: program.to_string_lossy().into_owned(),
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: None,
            stderr: Stderr::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        for argument in arguments {
            self.target.push(' ');
            self.target.push_str(&argument.as_ref().to_string_lossy());
            self.arguments.push(argument.as_ref().to_owned());
        }
        self
    }

    /// Sets an environment variable; the others are inherited.
    #[must_use]
    pub fn environment(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working directory. Inherited by default.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets the handling of standard error. Defaults to [`Stderr::Keep`].
    #[must_use]
    pub fn stderr(mut self, stderr: Stderr) -> Self {
        self.stderr = stderr;
        self
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(match self.stderr {
                Stderr::Keep => Stdio::piped(),
                Stderr::Inherit => Stdio::inherit(),
                Stderr::Discard => Stdio::null(),
            })
            .kill_on_drop(true);
        ProcessGroup::separate(&mut command);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

impl Connector for Program {
    fn target(&self) -> &str {
        &self.target
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            let mut child = self.command().spawn().map_err(|error| {
                let program = self.program.to_string_lossy();
                TransportError::unreachable(format!("{program} cannot be started"), error)
            })?;
            let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
                return Err(TransportError::Lost("the process has no pipes".to_owned()));
            };
            let stderr_tail = StderrTail::default();
            let reader = child.stderr.take().map(|stderr| stderr_tail.spawn_reader(stderr));
            let group = Some(ProcessGroup::of(&child));
            let child = ChildProcess { child, group, stderr_tail, reader };
            Ok(spawn_io_task("stdio", stdout, stdin, inbox, Some(child)))
        })
    }
}

/// The child process of a connection.
pub(crate) struct ChildProcess {
    child: Child,
    /// Its process group, because the child is often a script around the server. `None` once all of it
    /// has ended.
    group: Option<ProcessGroup>,
    stderr_tail: StderrTail,
    reader: Option<JoinHandle<()>>,
}

impl ChildProcess {
    /// Shuts the process down: after the end of its input it gets time to exit, then SIGTERM if the
    /// system has it, then it is killed.
    pub(crate) async fn shut_down(mut self, why: TransportError) -> TransportError {
        let mut status = tokio::time::timeout(STEP_TIMEOUT, self.child.wait()).await;
        if status.is_err() && self.group.as_ref().is_some_and(ProcessGroup::terminate) {
            status = tokio::time::timeout(STEP_TIMEOUT, self.child.wait()).await;
        }
        if status.is_err() {
            self.kill();
            status = tokio::time::timeout(STEP_TIMEOUT, self.child.wait()).await;
        }
        // Processes that it started, and that outlived it.
        if let Some(group) = self.group.take() {
            group.kill();
        }
        if let Some(reader) = self.reader.take() {
            let _ = tokio::time::timeout(STDERR_TIMEOUT, reader).await;
        }
        let TransportError::Lost(what) = why else { return why };
        let how = match status {
            Ok(Ok(status)) if !status.success() => format!("{what} ({status})"),
            _ => what,
        };
        match self.stderr_tail.text() {
            Some(stderr) => TransportError::Exited { what: how, stderr },
            None => TransportError::Lost(how),
        }
    }
}

impl ChildProcess {
    fn kill(&mut self) {
        if let Some(group) = &self.group {
            group.kill();
            // It may have just exited.
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for ChildProcess {
    /// Kills the process if there was no time for a shutdown.
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last bytes of a server's standard error.
#[derive(Clone, Debug, Default)]
struct StderrTail {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl StderrTail {
    fn spawn_reader(&self, mut stderr: impl AsyncRead + Send + Unpin + 'static) -> JoinHandle<()> {
        let bytes = self.bytes.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut bytes = bytes.lock();
                bytes.extend_from_slice(&buffer[..read]);
                let over = bytes.len().saturating_sub(TAIL_BYTES);
                bytes.drain(..over);
            }
        })
    }

    fn text(&self) -> Option<String> {
        let bytes = self.bytes.lock();
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim();
        (!text.is_empty()).then(|| sanitize::text(text).into_owned())
    }
}

/// Time limit for each step of the shutdown.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);

/// Time limit for reading the last output; grandchildren may keep the pipe open.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum length of the tail, in bytes.
const TAIL_BYTES: usize = 2048;
