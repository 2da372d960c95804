//! Directories of YAML and JSON files: finding and reading them, and watching for changes.

mod watch;

use std::fs::FileType;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::source::Format;

pub use watch::{ChangedFiles, FolderWatcher};

/// A file of a directory, by its extension.
#[derive(Debug)]
pub struct FoundFile {
    /// Path of the file.
    pub path: Arc<Path>,
    /// Format of the file.
    pub format: Format,
    /// Reason not to open it.
    refused: Option<String>,
}

impl FoundFile {
    /// Describes a file that a person names, whatever its name; JSON unless its name says YAML.
    pub fn named(path: &Path) -> Self {
        let format = Format::of(path).unwrap_or(Format::Json);
        Self { path: path.into(), format, refused: None }
    }

    /// Reads the file, if it has at most `limit` bytes of UTF-8.
    pub fn read(&self, limit: u64) -> Result<String, String> {
        match &self.refused {
            Some(refused) => Err(refused.clone()),
            None => read_text(&self.path, limit),
        }
    }
}

/// Finds all YAML and JSON files below a directory.
pub fn find_files(root: &Path) -> io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut waiting: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "skipped the directory {}", folder.display());
                continue;
            }
        };
        for entry in entries.flatten() {
            if found.len() >= MAX_FILES {
                tracing::warn!("read only the first {MAX_FILES} files in {}", root.display());
                return Ok(found);
            }
            let path = entry.path();
            let kind = entry.file_type();
            // Editors keep their own files there.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
                if depth < MAX_DEPTH {
                    waiting.push((path, depth + 1));
                }
            } else if let Some(format) = Format::of(&path) {
                let refused = kind.ok().and_then(|kind| refusal(&path, kind, root));
                found.push(FoundFile { path: path.into(), format, refused });
            }
        }
    }
    Ok(found)
}

/// Finds one YAML or JSON file below a directory, if it exists.
pub fn find_file(path: &Path, root: &Path) -> Option<FoundFile> {
    let format = Format::of(path)?;
    let inside = path.strip_prefix(root).ok()?;
    let hidden =
        |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let folders = inside.parent()?.components().count();
    if folders > MAX_DEPTH || inside.parent()?.components().any(hidden) {
        return None;
    }
    let kind = path.symlink_metadata().ok()?.file_type();
    if kind.is_dir() {
        return None;
    }
    let refused = refusal(path, kind, root);
    Some(FoundFile { path: path.into(), format, refused })
}

/// Returns why a file must not be opened. Reading anything but a file, or a link to one, may never
/// end.
fn refusal(path: &Path, kind: FileType, root: &Path) -> Option<String> {
    match kind {
        kind if kind.is_symlink() => check_link(path, root),
        kind if kind.is_file() => None,
        _ => Some(NO_FILE.to_owned()),
    }
}

/// Returns an error if a link points outside of the directory.
fn check_link(path: &Path, root: &Path) -> Option<String> {
    match path.canonicalize() {
        Ok(target) if target.starts_with(root) => None,
        Ok(_) => Some("the link points outside of its directory".to_owned()),
        Err(error) => Some(format!("the link is broken: {error}")),
    }
}

/// Reads each file, in order, on several threads if there are enough. `None` for a file that makes
/// the reader panic, which is a bug there; the others are still read.
pub fn read_each<T: Send>(
    found: &[FoundFile],
    read: &(dyn Fn(&FoundFile) -> T + Sync),
) -> Vec<Option<T>> {
    let read = |found: &FoundFile| catch_unwind(AssertUnwindSafe(|| read(found))).ok();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    if found.len() < WORTH_THREADS || threads == 1 {
        return found.iter().map(read).collect();
    }
    let size = found.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = found
            .chunks(size)
            .map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<_>>()))
            .collect();
        let done = parts.into_iter().map(|part| part.join().expect("panics are caught within"));
        done.flatten().collect()
    })
}

fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    let message = |error: io::Error| error.to_string();
    let metadata = path.metadata().map_err(message)?;
    // Checked before opening: opening a pipe blocks until there is a writer.
    if !metadata.is_file() {
        return Err(NO_FILE.to_owned());
    }
    let too_large =
        |size: u64| format!("the file has {size} bytes or more; at most {limit} are read");
    if metadata.len() > limit {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    // It may have grown since.
    let file = std::fs::File::open(path).map_err(message)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(message)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64));
    }
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        format!("the file is not UTF-8 from line {} on", line + 1)
    })
}

const NO_FILE: &str = "this is not a regular file";

/// Limit on the depth of directories.
const MAX_DEPTH: usize = 8;

const MAX_FILES: usize = 100_000;
const MAX_THREADS: usize = 8;
const WORTH_THREADS: usize = 200;

#[cfg(test)]
mod tests {
    use super::{FoundFile, WORTH_THREADS, read_each};

    /// Each file keeps its own reading when another makes the parser panic.
    #[test]
    fn readings_are_returned_in_the_order_of_files() {
        let name = |index: usize| format!("flow-{index}");
        let found: Vec<_> = (0..WORTH_THREADS * 2)
            .map(|index| FoundFile::named(std::path::Path::new(&name(index))))
            .collect();
        let readings = read_each(&found, &|found| {
            let id = found.path.to_str().unwrap();
            assert_ne!(id, "flow-7", "this one is to panic");
            id.to_owned()
        });
        assert_eq!(readings.len(), found.len());
        for (index, reading) in readings.iter().enumerate() {
            let expected = (index != 7).then(|| name(index));
            assert_eq!(*reading, expected);
        }
    }
}
