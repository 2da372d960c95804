//! What a running program takes of the machine, as Linux tells it.

use std::path::PathBuf;

/// What a program takes at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is really there, in KiB.
    pub resident: u64,
    /// Threads.
    pub threads: u64,
    /// What is open, by what it leads to, in order.
    pub handles: Vec<String>,
}

impl Usage {
    /// What a process takes now. Panics if it is gone.
    pub fn of(process: u32) -> Self {
        let place = PathBuf::from(format!("/proc/{process}"));
        let status = std::fs::read_to_string(place.join("status")).expect("the process runs");
        let figure = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            number.unwrap_or_else(|| panic!("{name} is not in {status}"))
        };
        let open = std::fs::read_dir(place.join("fd")).expect("the process is ours");
        // One that is closed while it is looked at is not open.
        let links = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let mut handles: Vec<_> =
            links.map(|link| without_number(&link.to_string_lossy())).collect();
        handles.sort();
        Self { resident: figure("VmRSS:"), threads: figure("Threads:"), handles }
    }
}

/// `socket:[123]` as `socket`: a number that is not used twice says nothing.
fn without_number(link: &str) -> String {
    link.split_once(":[").map_or(link, |(kind, _)| kind).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Usage;

    /// A file that is opened is one more handle, and memory that is written to is there.
    #[test]
    fn usage_is_told() {
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
