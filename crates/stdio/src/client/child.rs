//! A server that is spawned as a process of its own.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::neutral;
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::carry::over;

/// A server that is spawned, anew for every connection.
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

/// What becomes of what a server writes to its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stderr {
    /// Its last lines are kept, to be told when it fails.
    #[default]
    Keep,
    /// It goes where ours goes.
    Inherit,
    /// It is thrown away.
    Discard,
}

impl Program {
    /// A program, looked for in `PATH`.
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

    /// Sets a variable of its environment; everything else it has from ours.
    #[must_use]
    pub fn environment(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the folder it runs in. Defaults to ours.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Sets what becomes of its standard error. Defaults to [`Stderr::Keep`].
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
            // A ctrl-c in a terminal is for us, who then ask the server to leave.
            .process_group(0)
            .kill_on_drop(true);
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
            let last_words = LastWords::default();
            let listener = child.stderr.take().map(|stderr| last_words.listen(stderr));
            let owned = Owned { child, last_words, listener };
            Ok(over("stdio", stdout, stdin, inbox, Some(owned)))
        })
    }
}

/// The process behind a connection.
pub(crate) struct Owned {
    child: Child,
    last_words: LastWords,
    listener: Option<JoinHandle<()>>,
}

impl Owned {
    /// Sees the process off: it has had the end of its input; then it is asked, then made to.
    pub(crate) async fn end(mut self, why: TransportError) -> TransportError {
        let mut status = tokio::time::timeout(GRACE, self.child.wait()).await;
        for signal in [Signal::TERM, Signal::KILL] {
            if status.is_err() {
                self.send(signal);
                status = tokio::time::timeout(GRACE, self.child.wait()).await;
            }
        }
        if let Some(listener) = self.listener.take() {
            let _ = tokio::time::timeout(LAST_READ, listener).await;
        }
        let TransportError::Lost(what) = why else { return why };
        let how = match status {
            Ok(Ok(status)) if !status.success() => format!("{what} ({status})"),
            _ => what,
        };
        TransportError::Lost(match self.last_words.text() {
            Some(words) => format!("{how}; its last words were: {words}"),
            None => how,
        })
    }
}

impl Owned {
    /// Signals the process and all it has started: what is spawned is often a script around the
    /// server. Nothing happens once it has been waited for.
    fn send(&self, signal: Signal) {
        let group = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group {
            // It may have ended this moment.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Owned {
    /// Nobody is left behind by whoever has no time to see the process off.
    fn drop(&mut self) {
        self.send(Signal::KILL);
    }
}

/// The end of what a server wrote to its standard error.
#[derive(Clone, Debug, Default)]
struct LastWords {
    kept: Arc<Mutex<Vec<u8>>>,
}

impl LastWords {
    fn listen(&self, mut stderr: impl AsyncRead + Send + Unpin + 'static) -> JoinHandle<()> {
        let kept = self.kept.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..read]);
                let over = kept.len().saturating_sub(KEPT);
                kept.drain(..over);
            }
        })
    }

    fn text(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let text = text.trim();
        (!text.is_empty()).then(|| neutral::text(text).into_owned())
    }
}

/// How long a process gets at each step of being seen off.
const GRACE: Duration = Duration::from_secs(2);

/// How long what it wrote last is waited for; its own children may keep the pipe open.
const LAST_READ: Duration = Duration::from_millis(200);

/// How much of its standard error is kept, in bytes.
const KEPT: usize = 2048;
