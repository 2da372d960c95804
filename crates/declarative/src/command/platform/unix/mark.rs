//! Process mark: finds the processes of a program that have left its process group.
//!
//! The mark is a limit that every process inherits and that the kernel does not apply any more: the
//! limit on file locks of Linux 2.4. Neither `setsid`, nor a second fork, nor another program remove
//! it, and it is visible neither in the environment nor in the arguments.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpgid, getpid, getrlimit, pidfd_open,
    pidfd_send_signal, prlimit, setrlimit,
};
use tokio::process::{Child, Command};

/// Mark of a program and all its descendants.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessMark {
    /// The program, which leads its group.
    program: Pid,
    /// Id that was given last before it.
    before: i32,
    value: u64,
}

impl ProcessMark {
    /// Starts a program with a mark. `None` if the system does not allow it.
    pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Option<Self>)> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        static SPAWNING: Mutex<()> = Mutex::new(());
        let number = LAST.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX);
        let server = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
        let value = BASE | server << 32 | number;
        // Inherited from this process, since the program may start others at once.
        let spawning = SPAWNING.lock();
        let usual = getrlimit(Resource::Locks);
        let before = last_id();
        let is_set = setrlimit(Resource::Locks, Rlimit { current: Some(value), ..usual });
        let spawned = command.spawn();
        if is_set.is_ok() {
            // Was possible before.
            let _ = setrlimit(Resource::Locks, usual);
        }
        drop(spawning);
        let child = spawned?;
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let program = id.and_then(Pid::from_raw).filter(|_| is_set.is_ok());
        let mark = program.map(|program| Self { program, before, value });
        if let Some(mark) = mark {
            mark.clear_others(usual);
        }
        Ok((child, mark))
    }

    /// Takes the mark from programs that another thread has started meanwhile.
    fn clear_others(self, usual: Rlimit) {
        let server = getpid().as_raw_nonzero().get();
        for id in self.candidates() {
            let Some(pid) = Pid::from_raw(id).filter(|pid| *pid != self.program) else { continue };
            if self.marks(id) && parent(id) == Some(server) && server != 1 {
                // Fails if it has ended.
                let _ = prlimit(Some(pid), Resource::Locks, usual);
            }
        }
    }

    /// Sends a signal to the marked processes outside the group of the program. Returns whether there
    /// were any.
    pub(super) fn signal(self, signal: Signal) -> bool {
        let mut found = false;
        for id in self.candidates() {
            let Some(pid) = Pid::from_raw(id).filter(|_| self.marks(id)) else { continue };
            if getpgid(Some(pid)) == Ok(self.program) {
                continue;
            }
            // A descriptor stays with the process whose mark is read, whoever gets its id.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.marks(id) && !is_zombie(id) && pidfd_send_signal(&process, signal).is_ok() {
                found = true;
            }
        }
        found
    }

    /// Returns the ids given since the program was started.
    fn candidates(self) -> Vec<i32> {
        let last = last_id();
        if self.before < last && last - self.before < MAX_CANDIDATES {
            return (self.before..=last).collect();
        }
        // The numbers began again, or there are too many to try.
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn marks(self, id: i32) -> bool {
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap_or_default();
        let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"));
        let soft = locks.and_then(|locks| locks.split_whitespace().next());
        soft.and_then(|soft| soft.parse().ok()) == Some(self.value)
    }
}

/// Returns the id that the system gave last; 0 if that is unknown.
fn last_id() -> i32 {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next_back().and_then(|last| last.parse().ok()).unwrap_or(0)
}

fn is_zombie(id: i32) -> bool {
    status_field(id, 0).is_some_and(|state| state == "Z")
}

fn parent(id: i32) -> Option<i32> {
    status_field(id, 1)?.parse().ok()
}

/// Returns a field of a process behind its name: state, parent, and others.
fn status_field(id: i32, number: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(number).map(str::to_owned)
}

/// Distinguishes marks from limits that somebody set.
const BASE: u64 = 1 << 62;

/// Limit on ids that are tried one by one; beyond it, all processes are listed.
const MAX_CANDIDATES: i32 = 2_000;
