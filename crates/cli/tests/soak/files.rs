//! The files that the server shares.

use std::path::{Path, PathBuf};

/// The shared directory.
pub(crate) fn folder(run: &Path) -> PathBuf {
    run.join("files")
}

/// The working directory of stdio servers.
pub(crate) fn stdio_folder(run: &Path) -> PathBuf {
    run.join("stdio")
}

/// Writes all files.
pub(crate) fn write(run: &Path) {
    std::fs::create_dir(folder(run)).unwrap();
    std::fs::create_dir(stdio_folder(run)).unwrap();
    std::fs::write(folder(run).join(LARGE), large()).unwrap();
    std::fs::write(folder(run).join(NOTE), NOTED).unwrap();
    change(run, 0);
}

/// Changes the file that clients subscribe to.
pub(crate) fn change(run: &Path, number: u64) {
    std::fs::write(folder(run).join(CHANGING), format!("change {number}\n")).unwrap();
}

/// A text above the size of an inline result, with different lines.
pub(crate) fn large() -> String {
    (0..LARGE_LINES).map(|line| format!("{line:>15}\n")).collect()
}

pub(crate) const LARGE: &str = "large.txt";
pub(crate) const NOTE: &str = "note.txt";
pub(crate) const NOTED: &str = "Nothing is left behind.\n";
pub(crate) const CHANGING: &str = "changing.txt";

const LARGE_LINES: usize = 100_000;
