//! Memory and file descriptors of a process.

use std::time::Duration;

use mcp_flow_testkit::wait::within;

/// Resident memory in bytes and number of open file descriptors of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceUsage {
    pub(crate) memory: u64,
    pub(crate) handles: usize,
}

impl ResourceUsage {
    /// Reads the current usage.
    pub(crate) fn of(id: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        let handles = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count();
        Self { memory: kibibytes * 1024, handles }
    }

    /// Lists the targets of the open file descriptors.
    pub(crate) fn handles(id: u32) -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten();
        let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.map(|link| link.display().to_string()).collect()
    }

    /// Waits until the number of file descriptors is stable, and returns the usage.
    pub(crate) async fn settled(id: u32) -> Self {
        let settling = async {
            let (mut last, mut same) = (Self::of(id), 0);
            while same < 10 {
                tokio::time::sleep(STEP).await;
                let now = Self::of(id);
                same = if now.handles == last.handles { same + 1 } else { 0 };
                last = now;
            }
            last
        };
        within("the number of file descriptors to be stable", settling).await
    }
}

/// Returns whether a condition becomes true in time. Polls: a process does not announce that it
/// released a resource.
pub(crate) async fn becomes_true_within(time: Duration, is_true: impl AsyncFn() -> bool) -> bool {
    let looking = async {
        while !is_true().await {
            tokio::time::sleep(STEP).await;
        }
    };
    tokio::time::timeout(time, looking).await.is_ok()
}

const STEP: Duration = Duration::from_millis(20);
