//! Resource usage of a process, from /proc.

use std::{
    collections::VecDeque,
    fs, thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

/// The CPU time of all threads of a process, in user and kernel mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTime {
    /// CPU time of living threads, in nanoseconds.
    living: Option<Duration>,
    /// CPU time of all threads, ended ones included, in hundredths of a second.
    whole: Duration,
}

impl CpuTime {
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))
            .context("cannot read the processor time of the server; has it exited?")?;
        let whole = whole_of(&stat).context("/proc/PID/stat is not as documented")?;
        Ok(Self { living: schedstat_of(process, 0), whole })
    }

    /// Returns the time used since an earlier reading of the same process.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        let whole = self.whole.saturating_sub(earlier.whole);
        let Some((now, then)) = self.living.zip(earlier.living) else { return whole };
        let living = now.saturating_sub(then);
        // The nanoseconds of an ended thread are lost, but its ticks stay.
        if whole > living.mul_f64(1.05) + 2 * TICK { whole } else { living }
    }
}

/// Returns the time in which threads of a process were runnable while their cores were taken.
///
/// Zero if the kernel was built without schedstat. The share of an ended thread is lost.
pub(crate) fn waited_for_cores(process: u32) -> Duration {
    schedstat_of(process, 1).unwrap_or_default()
}

/// The resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    /// Resident memory that is not of files.
    pub(crate) private: u64,
    /// The peak since the process started.
    pub(crate) peak: u64,
}

impl Memory {
    pub(crate) fn of(process: u32) -> anyhow::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))
            .context("cannot read the memory of the server; has it exited?")?;
        let field = |name| {
            kilobytes_of(&status, name)
                .map(|kilobytes| kilobytes * 1024)
                .with_context(|| format!("/proc/PID/status has no {name}; has the server exited?"))
        };
        let (resident, private) = (field("VmRSS:")?, field("RssAnon:")?);
        Ok(Self { resident, private, peak: field("VmHWM:")? })
    }

    /// Waits until the memory of a process has hardly changed for two seconds.
    pub(crate) fn settled(process: u32) -> anyhow::Result<Self> {
        let start = Instant::now();
        let mut recent = VecDeque::new();
        while start.elapsed() < STABLE_LIMIT {
            thread::sleep(SAMPLE_INTERVAL);
            let memory = Self::of(process)?;
            recent.push_back(memory.resident);
            if recent.len() > STABLE_SAMPLES {
                recent.pop_front();
                let (least, most) =
                    recent.iter().fold((u64::MAX, 0), |(least, most), &resident| {
                        (least.min(resident), most.max(resident))
                    });
                if most - least <= STABLE_BYTES {
                    return Ok(memory);
                }
            }
        }
        bail!("the memory of the server has not settled in {STABLE_LIMIT:?}")
    }
}

/// Sums one field over the living threads. None if the kernel has no schedstat.
fn schedstat_of(process: u32, field: usize) -> Option<Duration> {
    let mut total = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        // A thread may end between being listed and being read.
        let Ok(schedstat) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else {
            continue;
        };
        total += Duration::from_nanos(schedstat.split_whitespace().nth(field)?.parse().ok()?);
    }
    (field > 0 || total > Duration::ZERO).then_some(total)
}

fn whole_of(stat: &str) -> Option<Duration> {
    // The second field is the program name in brackets, and may contain brackets itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(TICK * (user + system))
}

fn kilobytes_of(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// The unit of /proc/PID/stat, which is a hundredth of a second on Linux.
const TICK: Duration = Duration::from_millis(10);

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
const STABLE_SAMPLES: usize = 20;
const STABLE_BYTES: u64 = 256 * 1024;
const STABLE_LIMIT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_program_name() {
        let stat = "42 (a) R (b)) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 99";
        assert_eq!(whole_of(stat), Some(TICK * 12));
        assert_eq!(kilobytes_of("VmPeak:\t 9 kB\nVmRSS:\t    2152 kB\n", "VmRSS:"), Some(2152));
    }

    #[test]
    fn ticks_count_only_when_a_thread_has_ended() {
        let reading = |living, whole| CpuTime {
            living: Some(Duration::from_millis(living)),
            whole: Duration::from_millis(whole),
        };
        assert_eq!(reading(207, 210).since(reading(3, 0)), Duration::from_millis(204));
        assert_eq!(reading(100, 900).since(reading(3, 0)), Duration::from_millis(900));
        assert_eq!(reading(1, 900).since(reading(3, 0)), Duration::from_millis(900));
    }

    #[test]
    fn this_process_can_be_read() {
        let process = std::process::id();
        let memory = Memory::of(process).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        CpuTime::of(process).unwrap();
    }
}
