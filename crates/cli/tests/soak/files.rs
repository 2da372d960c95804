//! The files the server shares, and what is in them.

use std::path::{Path, PathBuf};

/// The folder that is shared.
pub(crate) fn folder(run: &Path) -> PathBuf {
    run.join("files")
}

/// Where the servers of single clients run.
pub(crate) fn stdio_folder(run: &Path) -> PathBuf {
    run.join("stdio")
}

/// Makes all of them.
pub(crate) fn write(run: &Path) {
    std::fs::create_dir(folder(run)).unwrap();
    std::fs::create_dir(stdio_folder(run)).unwrap();
    std::fs::write(folder(run).join(LARGE), large()).unwrap();
    std::fs::write(folder(run).join(NOTE), NOTED).unwrap();
    pulse(run, 0);
}

/// Changes the file that clients subscribe to.
pub(crate) fn pulse(run: &Path, beat: u64) {
    std::fs::write(folder(run).join(PULSE), format!("beat {beat}\n")).unwrap();
}

/// More than goes in one message where there is another way, and different at every place.
pub(crate) fn large() -> String {
    (0..LARGE_LINES).map(|line| format!("{line:>15}\n")).collect()
}

pub(crate) const LARGE: &str = "large.txt";
pub(crate) const NOTE: &str = "note.txt";
pub(crate) const NOTED: &str = "Nothing is left behind.\n";
pub(crate) const PULSE: &str = "pulse.txt";

const LARGE_LINES: usize = 100_000;
