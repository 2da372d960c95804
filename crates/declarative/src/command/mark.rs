//! Mark of the processes of a program, by which those are found that left its process group.
//!
//! The mark is a limit that every process inherits and that the kernel does not apply any more: the
//! limit on file locks of Linux 2.4. Neither `setsid`, nor a second fork, nor another program remove
//! it, and it is visible neither in the environment nor in the arguments.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpgid, getpid, pidfd_open, pidfd_send_signal,
    prlimit,
};

/// Mark of a program and all its descendants.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessMark {
    /// The program, which leads its group.
    program: Pid,
    value: u64,
}

impl ProcessMark {
    /// Marks a program that has just started. `None` if the system does not allow it.
    pub(super) fn set(program: Pid) -> Option<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) & u64::from(u32::MAX);
        let server = u64::from(getpid().as_raw_nonzero().get().unsigned_abs());
        let value = BASE | server << 32 | number;
        let limit = Rlimit { current: Some(value), maximum: Some(value) };
        prlimit(Some(program), Resource::Locks, limit).ok()?;
        Some(Self { program, value })
    }

    /// Sends a signal to the marked processes outside the group of the program. Returns whether there
    /// were any.
    pub(super) fn signal(self, signal: Signal) -> bool {
        let mut found = false;
        for id in self.candidates() {
            let Some(pid) = Pid::from_raw(id).filter(|_| self.is_on(id)) else { continue };
            if getpgid(Some(pid)) == Ok(self.program) {
                continue;
            }
            // A descriptor stays with the process whose mark is read, whoever gets its id.
            let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.is_on(id) && !is_zombie(id) && pidfd_send_signal(&process, signal).is_ok() {
                found = true;
            }
        }
        found
    }

    /// Returns the ids given since the program was started.
    fn candidates(self) -> Vec<i32> {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let last = load.split_whitespace().next_back().and_then(|last| last.parse().ok());
        let since: RangeInclusive<i32> = self.program.as_raw_nonzero().get()..=last.unwrap_or(0);
        if !since.is_empty() && since.end() - since.start() < MOST_TRIED {
            return since.collect();
        }
        // The numbers began again, or there are too many to try.
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    fn is_on(self, id: i32) -> bool {
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap_or_default();
        let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"));
        // A process may lower its soft limit, and has to lower its hard limit to lose the mark.
        let hard = locks.and_then(|locks| locks.split_whitespace().nth(1));
        hard.and_then(|hard| hard.parse().ok()) == Some(self.value)
    }
}

fn is_zombie(id: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

/// Distinguishes marks from limits that somebody set.
const BASE: u64 = 1 << 62;

/// Ids to try one by one, rather than to list all processes.
const MOST_TRIED: i32 = 2_000;
