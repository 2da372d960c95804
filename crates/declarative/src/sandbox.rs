//! Sandbox of programs: file access by Landlock, no capabilities, no network by a network namespace,
//! resource limits, and a process namespace, with which everything ends that a program has started.
//!
//! Landlock covers neither the permissions of files, nor sockets in files: a program can still change
//! the mode of what its user owns, and connect to sockets that its user may open.
//!
//! The server starts itself as a launcher ([`COMMAND`]), which restricts itself and then becomes the
//! program. A restriction that the kernel does not have is an error: nothing runs without it. Only Linux
//! has them.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unsupported as system;

/// Degree of isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SandboxMode {
    /// Only listed files.
    Files,
    /// Only listed files, no network, limited resources, no processes left behind.
    Strict,
}

/// Part of a launcher in the process namespace of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum ProcessNamespace {
    /// There is none; the launcher becomes the program.
    Shared,
    /// The launcher creates it, and starts another as its first process.
    Own,
    /// The launcher is its first process. It starts the program, and the kernel kills all others when
    /// both have ended.
    First,
}

/// Rules of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct SandboxRules {
    /// Files and directories that may be read, besides those of the system.
    pub(crate) read: Vec<PathBuf>,
    /// Files and directories that may be changed.
    pub(crate) write: Vec<PathBuf>,
    pub(crate) network: bool,
    pub(crate) memory: Option<u64>,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) namespace: ProcessNamespace,
}

impl SandboxRules {
    pub(crate) fn new(mode: SandboxMode) -> Self {
        let is_strict = mode == SandboxMode::Strict;
        Self {
            read: Vec::new(),
            write: Vec::new(),
            network: !is_strict,
            memory: is_strict.then_some(MEMORY),
            cpu_seconds: is_strict.then_some(CPU_SECONDS),
            processes: is_strict.then_some(PROCESSES),
            open_files: is_strict.then_some(OPEN_FILES),
            file_bytes: is_strict.then_some(FILE_BYTES),
            namespace: match mode {
                SandboxMode::Files => ProcessNamespace::Shared,
                SandboxMode::Strict => ProcessNamespace::Own,
            },
        }
    }
}

/// Program that starts others in a sandbox.
#[derive(Debug)]
pub struct Launcher {
    path: PathBuf,
    /// Reason for which it does not work, with and without a network and a process namespace.
    probed: [OnceLock<Result<(), String>>; 4],
}

impl Launcher {
    /// Uses a program that calls [`launch`] if its first argument is [`COMMAND`].
    pub fn new(path: PathBuf) -> Self {
        Self { path, probed: Default::default() }
    }

    /// Checks that the kernel has what the rules need.
    pub(crate) fn check(&self, rules: &SandboxRules) -> Result<(), String> {
        let has_namespace = rules.namespace != ProcessNamespace::Shared;
        let probed = &self.probed[usize::from(rules.network) + 2 * usize::from(has_namespace)];
        probed.get_or_init(|| self.probe(rules)).clone()
    }

    fn probe(&self, rules: &SandboxRules) -> Result<(), String> {
        let SandboxRules { network, namespace, .. } = *rules;
        let strict = SandboxRules::new(SandboxMode::Strict);
        let rules = SandboxRules { network, namespace, ..strict };
        let rules = serde_json::to_string(&rules).unwrap_or_default();
        let output = Command::new(&self.path).args([COMMAND, &rules]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("the sandbox cannot be started: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let reason = String::from_utf8_lossy(&output.stderr);
                Err(format!("this system cannot run the sandbox: {}", reason.trim()))
            }
        }
    }

    /// Returns the program and the arguments that start a program in a sandbox.
    pub(crate) fn wrap(&self, rules: &SandboxRules, program: &Path) -> (PathBuf, Vec<OsString>) {
        let rules = serde_json::to_string(rules).unwrap_or_default();
        (self.path.clone(), vec![COMMAND.into(), rules.into(), program.into()])
    }
}

/// First argument of the launcher.
pub const COMMAND: &str = "sandbox-launch";

/// Restricts this process as its arguments say, and becomes the program that they name. Without a
/// program it only reports whether the restrictions work. Must be called by the only thread.
pub fn launch(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let rules = arguments.next().and_then(|rules| rules.into_string().ok());
    let rules = rules.and_then(|rules| serde_json::from_str::<SandboxRules>(&rules).ok());
    let Some(rules) = rules else {
        eprintln!("the rules of the sandbox are missing");
        return ExitCode::from(CANNOT_RUN);
    };
    system::launch(&rules, arguments).unwrap_or_else(|error| {
        eprintln!("the sandbox failed: {error}");
        ExitCode::from(CANNOT_RUN)
    })
}

/// Exit code of a launcher that could not start the program.
const CANNOT_RUN: u8 = 126;

const MEMORY: u64 = 4 << 30;
const CPU_SECONDS: u64 = 60;
const OPEN_FILES: u64 = 1024;

/// Limit on processes and threads.
const PROCESSES: u64 = 512;

const FILE_BYTES: u64 = 1 << 30;
