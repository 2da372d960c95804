//! What a process holds: memory and handles.

use std::time::Duration;

/// Memory in bytes and open handles of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) memory: u64,
    pub(crate) handles: usize,
}

impl Health {
    /// As it is now.
    pub(crate) fn of(id: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        let handles = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        Self { memory: kibibytes * 1024, handles }
    }

    /// What the handles of a process are.
    pub(crate) fn handles(id: u32) -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.map(|link| link.display().to_string()).collect()
    }

    /// When handles have not changed for a while.
    pub(crate) async fn settled(id: u32) -> Self {
        let (mut last, mut same) = (Self::of(id), 0);
        while same < 10 {
            tokio::time::sleep(STEP).await;
            let now = Self::of(id);
            same = if now.handles == last.handles { same + 1 } else { 0 };
            last = now;
        }
        last
    }
}

/// Whether something becomes true in time. Nobody tells when a process lets go of something, so it
/// is looked at again and again.
pub(crate) async fn within(time: Duration, is_true: impl AsyncFn() -> bool) -> bool {
    let looking = async {
        while !is_true().await {
            tokio::time::sleep(STEP).await;
        }
    };
    tokio::time::timeout(time, looking).await.is_ok()
}

const STEP: Duration = Duration::from_millis(20);
