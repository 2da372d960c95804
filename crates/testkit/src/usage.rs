//! Resource usage of a process, from `/proc`.

use std::path::PathBuf;

/// Resource usage at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Resident memory in KiB.
    pub resident: u64,
    /// Number of threads.
    pub threads: u64,
    /// Targets of open file descriptors, sorted.
    pub handles: Vec<String>,
}

impl Usage {
    /// Reads the usage of a process. Panics if it has exited.
    pub fn of(process: u32) -> Self {
        let place = PathBuf::from(format!("/proc/{process}"));
        let status = std::fs::read_to_string(place.join("status")).expect("the process runs");
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or_else(|| panic!("{name} is not in {status}"))
        };
        let open = std::fs::read_dir(place.join("fd")).expect("the process is ours");
        // One that is closed in the meantime does not count.
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let mut handles: Vec<_> =
            links.map(|link| without_number(&link.to_string_lossy())).collect();
        handles.sort();
        Self { resident: figure("VmRSS:"), threads: figure("Threads:"), handles }
    }
}

/// `socket:[123]` becomes `socket`: the inode differs each time.
fn without_number(link: &str) -> String {
    link.split_once(":[").map_or(link, |(kind, _)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Usage;

    /// An open file adds a handle, and written memory is resident.
    #[test]
    fn usage_counts_handles_and_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("opened");
        let is_open = |usage: &Usage| usage.handles.iter().any(|link| path == *link);
        let before = Usage::of(std::process::id());
        let file = std::fs::File::create(&path).unwrap();
        let block = vec![1_u8; 64 << 20];
        let during = Usage::of(std::process::id());
        assert!(during.resident > before.resident + 32 * 1024, "{before:?}, {during:?}");
        assert!(block.iter().all(|byte| *byte == 1));
        drop(file);
        let after = Usage::of(std::process::id());
        assert_eq!([&before, &during, &after].map(is_open), [false, true, false]);
    }
}
