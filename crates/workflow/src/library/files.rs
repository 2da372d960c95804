//! Finding and reading workflow files in a directory.

use std::fs::FileType;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::problem::Problem;
use crate::read::Reading;
use crate::source::Format;

/// A file with the extension of a workflow.
#[derive(Debug)]
pub(super) struct WorkflowFile {
    pub(super) path: Arc<Path>,
    format: Format,
    /// Reason not to open it.
    refused: Option<String>,
}

/// Finds all workflow files below a directory.
pub(super) fn find(root: &Path) -> io::Result<Vec<WorkflowFile>> {
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
            if found.len() >= MOST_FILES {
                tracing::warn!("read only the first {MOST_FILES} files in {}", root.display());
                return Ok(found);
            }
            let path = entry.path();
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
                let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                if !hidden && depth < DEEPEST {
                    waiting.push((path, depth + 1));
                }
            } else if let Some(format) = Format::of(&path) {
                let refused = kind.ok().and_then(|kind| refusal(&path, kind, root));
                found.push(WorkflowFile { path: path.into(), format, refused });
            }
        }
    }
    Ok(found)
}

/// Finds one workflow file below a directory, if it exists.
pub(super) fn find_one(path: &Path, root: &Path) -> Option<WorkflowFile> {
    let format = Format::of(path)?;
    let inside = path.strip_prefix(root).ok()?;
    let hidden =
        |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let folders = inside.parent()?.components().count();
    if folders > DEEPEST || inside.parent()?.components().any(hidden) {
        return None;
    }
    let kind = path.symlink_metadata().ok()?.file_type();
    if kind.is_dir() {
        return None;
    }
    let refused = refusal(path, kind, root);
    Some(WorkflowFile { path: path.into(), format, refused })
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

/// Reads many files, on several threads if there are enough.
pub(super) fn read_all(found: Vec<WorkflowFile>, root: &Path) -> Vec<(WorkflowFile, Reading)> {
    let readings = read_each(&found, &|found| read(found, root));
    found.into_iter().zip(readings).collect()
}

/// Reads each file, in order.
fn read_each(
    found: &[WorkflowFile],
    read: &(dyn Fn(&WorkflowFile) -> Reading + Sync),
) -> Vec<Reading> {
    // A panic in the parser is a bug there; the other files are still read.
    let read = |found: &WorkflowFile| {
        let reading = catch_unwind(AssertUnwindSafe(|| read(found)));
        reading.unwrap_or_else(|_| unread("the file cannot be read; please report this".to_owned()))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
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

fn unread(message: String) -> Reading {
    Reading { workflow: None, id: None, problems: vec![Problem::of_file(message)] }
}

/// Reads one file.
pub(super) fn read(found: &WorkflowFile, root: &Path) -> Reading {
    if let Some(refused) = &found.refused {
        return unread(refused.clone());
    }
    let text = match read_text(&found.path) {
        Ok(text) => text,
        Err(message) => return unread(message),
    };
    let folder = found.path.parent().filter(|folder| *folder != root);
    let category = folder.and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
    let category = category.filter(|name| name.len() <= LONGEST_CATEGORY);
    Reading::of(&text, found.format, category.unwrap_or("general"))
}

fn read_text(path: &Path) -> Result<String, String> {
    let message = |error: io::Error| error.to_string();
    let metadata = path.metadata().map_err(message)?;
    // Checked before opening: opening a pipe blocks until there is a writer.
    if !metadata.is_file() {
        return Err(NO_FILE.to_owned());
    }
    let too_large =
        |size: u64| format!("the file has {size} bytes or more; at most {LARGEST_FILE} are read");
    if metadata.len() > LARGEST_FILE {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    // It may have grown since.
    let file = std::fs::File::open(path).map_err(message)?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).map_err(message)?;
    if bytes.len() as u64 > LARGEST_FILE {
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

pub(super) fn check(path: &Path) -> io::Result<Vec<Problem>> {
    path.metadata()?;
    let format = Format::of(path).unwrap_or(Format::Json);
    let found = WorkflowFile { path: path.into(), format, refused: None };
    Ok(read(&found, path.parent().unwrap_or(path)).problems)
}

const NO_FILE: &str = "this is not a regular file";

/// Limit on the size of a file: 1 MB, as in the published servers.
const LARGEST_FILE: u64 = 1024 * 1024;

/// Limit on the depth of directories.
const DEEPEST: usize = 8;

const MOST_FILES: usize = 100_000;
const MOST_THREADS: usize = 8;
const WORTH_THREADS: usize = 200;
const LONGEST_CATEGORY: usize = 64;

#[cfg(test)]
mod tests {
    use super::{WORTH_THREADS, WorkflowFile, read_each};
    use crate::read::Reading;
    use crate::source::Format;

    /// Each file keeps its own reading when another makes the parser panic.
    #[test]
    fn readings_are_returned_in_the_order_of_files() {
        let name = |index: usize| format!("flow-{index}");
        let found: Vec<_> = (0..WORTH_THREADS * 2)
            .map(|index| WorkflowFile {
                path: std::path::Path::new(&name(index)).into(),
                format: Format::Json,
                refused: None,
            })
            .collect();
        let readings = read_each(&found, &|found| {
            let id = found.path.to_str().unwrap();
            assert_ne!(id, "flow-7", "this one is to panic");
            Reading { workflow: None, id: Some(id.into()), problems: Vec::new() }
        });
        assert_eq!(readings.len(), found.len());
        for (index, reading) in readings.iter().enumerate() {
            let expected = (index != 7).then(|| name(index));
            assert_eq!(reading.id.as_deref(), expected.as_deref());
        }
        assert!(readings[7].first_error().is_some());
    }
}
