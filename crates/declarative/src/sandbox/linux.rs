//! Launcher on Linux: restricts itself by the kernel, and becomes or starts the program.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, pidfd_open, setpriority_process, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities};

use super::{CANNOT_RUN, COMMAND, ProcessNamespace, SandboxRules};

/// Restricts this process, and becomes or starts the program that the arguments name.
pub(super) fn launch(
    rules: &SandboxRules,
    arguments: impl Iterator<Item = OsString>,
) -> Result<ExitCode, String> {
    match rules.namespace {
        ProcessNamespace::Own => enter_namespaces(rules, arguments),
        ProcessNamespace::Shared | ProcessNamespace::First => start(rules, arguments),
    }
}

/// Starts another launcher in namespaces of its own, and waits for it.
fn enter_namespaces(
    rules: &SandboxRules,
    arguments: impl Iterator<Item = OsString>,
) -> Result<ExitCode, String> {
    // Beside processes: the name of the host, and memory that programs share.
    let mut flags = UnshareFlags::NEWPID | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC;
    if !rules.network {
        flags |= UnshareFlags::NEWNET;
    }
    unshare_or_as_user(flags).map_err(|error| format!("process namespace: {error}"))?;
    let first = SandboxRules { namespace: ProcessNamespace::First, network: true, ..rules.clone() };
    let first = serde_json::to_string(&first).map_err(|error| error.to_string())?;
    let launcher = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(launcher);
    command.args([COMMAND, &first]).args(arguments);
    let mut child = command.spawn().map_err(|error| format!("process namespace: {error}"))?;
    let most = rules.processes.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let status = watch(&mut child, most).map_err(|error| format!("process namespace: {error}"))?;
    Ok(status.map_or_else(
        || {
            eprintln!("the program had more than {most} processes and was terminated");
            ExitCode::from(CANNOT_RUN)
        },
        exit_code,
    ))
}

/// Waits for the first process of a namespace, and ends all of them if there are too many. The kernel
/// does that itself for everybody but root. Returns `None` then.
fn watch(first: &mut Child, most: usize) -> std::io::Result<Option<ExitStatus>> {
    let id = first.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("the process has no id"))?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
    // Thousands of others may want the processor. Only root may be first, and only root needs it.
    let _ = setpriority_process(None, FIRST_PRIORITY);
    loop {
        let mut end = [PollFd::new(&descriptor, PollFlags::IN)];
        let ended = retry_on_intr(|| poll(&mut end, Some(&WATCH_INTERVAL)))?;
        if ended > 0 {
            return first.wait().map(Some);
        }
        if has_more_descendants(id, most) {
            first.kill()?;
            first.wait()?;
            return Ok(None);
        }
    }
}

fn has_more_descendants(id: u32, most: usize) -> bool {
    let mut waiting = vec![id.to_string()];
    let mut count = 0;
    while let Some(id) = waiting.pop() {
        count += 1;
        for task in std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(task.path().join("children"));
            waiting.extend(children.unwrap_or_default().split_whitespace().map(str::to_owned));
        }
        // The first process is the launcher.
        if waiting.len() + count > most.saturating_add(1) {
            return true;
        }
    }
    false
}

/// Restricts this process, and becomes or starts the program.
fn start(
    rules: &SandboxRules,
    mut arguments: impl Iterator<Item = OsString>,
) -> Result<ExitCode, String> {
    let program = arguments.next();
    restrict(rules, program.as_ref().map(Path::new))?;
    let Some(program) = program else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(&program);
    command.args(arguments);
    let error = match rules.namespace {
        ProcessNamespace::First => match command.status() {
            Ok(status) => return Ok(exit_code(status)),
            Err(error) => error,
        },
        ProcessNamespace::Shared | ProcessNamespace::Own => command.exec(),
    };
    eprintln!("{} cannot be run: {error}", program.display());
    Ok(ExitCode::from(CANNOT_RUN))
}

/// Exit code that reports the end of another process, as shells do.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(CANNOT_RUN))
}

fn restrict(rules: &SandboxRules, program: Option<&Path>) -> Result<(), String> {
    limit_resources(rules).map_err(|error| format!("resource limits: {error}"))?;
    if !rules.network {
        leave_network().map_err(|error| format!("network namespace: {error}"))?;
    }
    restrict_files(rules, program)?;
    drop_capabilities().map_err(|error| format!("capabilities: {error}"))
}

/// Gives up what root, or the owner of a user namespace, may do beyond the owner of files: Landlock
/// does not cover it. Landlock has also set that no program gives any back.
fn drop_capabilities() -> std::io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}

fn limit_resources(rules: &SandboxRules) -> std::io::Result<()> {
    for (resource, limit) in [
        (Resource::As, rules.memory),
        (Resource::Cpu, rules.cpu_seconds),
        (Resource::Nproc, rules.processes),
        (Resource::Nofile, rules.open_files),
        (Resource::Fsize, rules.file_bytes),
        (Resource::Core, Some(0)),
    ] {
        if let Some(limit) = limit {
            let current = rustix::process::getrlimit(resource);
            let limit = current.maximum.map_or(limit, |maximum| limit.min(maximum));
            setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
        }
    }
    Ok(())
}

/// Moves this process to a network namespace without interfaces.
fn leave_network() -> std::io::Result<()> {
    unshare_or_as_user(UnshareFlags::NEWNET)
}

/// Moves this process, or its children, to new namespaces. An unprivileged process needs a user
/// namespace of its own for that.
#[expect(deprecated, reason = "no descriptors are shared with other threads: there are none")]
fn unshare_or_as_user(flags: UnshareFlags) -> std::io::Result<()> {
    use rustix::thread::unshare;
    if unshare(flags).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    unshare(flags | UnshareFlags::NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

fn restrict_files(rules: &SandboxRules, program: Option<&Path>) -> Result<(), String> {
    let describe = |error: landlock::RulesetError| format!("Landlock: {error}");
    let is_there = |path: &&Path| path.exists();
    let system = SYSTEM.iter().map(Path::new).chain(program).filter(is_there);
    let (read, write) = (AccessFs::from_read(LANDLOCK), AccessFs::from_all(LANDLOCK));
    let devices = DEVICES.iter().map(Path::new).filter(is_there);
    for path in rules.read.iter().chain(&rules.write) {
        if !path.exists() {
            return Err(format!("{} does not exist", path.display()));
        }
    }
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(system, read)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(devices, write)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(&rules.read, read)))
        .and_then(|ruleset| ruleset.add_rules(path_beneath_rules(&rules.write, write)))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(describe)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => {}
        _ => return Err("Landlock: the kernel enforces it only in part".to_owned()),
    }
    // Signals to the server and others of its user, since Linux 6.12.
    let signals = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    let scoped = signals.scope(Scope::Signal).and_then(Ruleset::create);
    scoped.and_then(landlock::RulesetCreated::restrict_self).map(|_| ()).map_err(describe)
}

/// Version of Landlock that is needed: since Linux 6.2, it also bounds truncation.
const LANDLOCK: ABI = ABI::V3;

/// Directories that programs need to start. They may be read and executed.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc",
    "/dev/urandom",
];

const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Time between two counts of processes.
const WATCH_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

const FIRST_PRIORITY: i32 = -20;
