//! Which files of a directory are workflows, and what is in them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::problem::Problem;
use crate::read::Reading;
use crate::source::Format;

/// A file that should hold a workflow.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: Arc<Path>,
    format: Format,
    /// Why it is not even opened.
    refused: Option<String>,
}

/// All files of a directory that should hold workflows.
pub(super) fn find(root: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    let mut waiting: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the directory {} is left out", folder.display());
                continue;
            }
        };
        for entry in entries.flatten() {
            if found.len() >= MOST_FILES {
                tracing::warn!("only {MOST_FILES} files are read in {}", root.display());
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
                let is_link = kind.is_ok_and(|kind| kind.is_symlink());
                let refused = if is_link { leads_outside(&path, root) } else { None };
                found.push(Found { path: path.into(), format, refused });
            }
        }
    }
    Ok(found)
}

/// One file of a directory, if it is there and should hold a workflow.
pub(super) fn look(path: &Path, root: &Path) -> Option<Found> {
    let format = Format::of(path)?;
    let inside = path.strip_prefix(root).ok()?;
    let hidden =
        |part: std::path::Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let folders = inside.parent()?.components().count();
    if folders > DEEPEST || inside.parent()?.components().any(hidden) {
        return None;
    }
    let is_link = path.symlink_metadata().ok()?.is_symlink();
    let refused = if is_link { leads_outside(path, root) } else { None };
    Some(Found { path: path.into(), format, refused })
}

/// Whether a link leads to where nobody said that workflows are.
fn leads_outside(path: &Path, root: &Path) -> Option<String> {
    match path.canonicalize() {
        Ok(target) if target.starts_with(root) => None,
        Ok(_) => Some("the link leads outside of its directory".to_owned()),
        Err(error) => Some(format!("the link leads nowhere: {error}")),
    }
}

/// Reads many files, on several threads if that pays.
pub(super) fn read_all(found: Vec<Found>, root: &Path) -> Vec<(Found, Reading)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    if found.len() < WORTH_THREADS || threads == 1 {
        let read = |found: Found| {
            let reading = read(&found, root);
            (found, reading)
        };
        return found.into_iter().map(read).collect();
    }
    let size = found.len().div_ceil(threads);
    let readings: Vec<Reading> = std::thread::scope(|scope| {
        let parts: Vec<_> = found
            .chunks(size)
            .map(|part| scope.spawn(|| part.iter().map(|one| read(one, root)).collect::<Vec<_>>()))
            .collect();
        // One that panicked has read nothing; that would be a fault of the parser's.
        let done = parts.into_iter().map(|part| part.join().unwrap_or_default());
        done.flatten().collect()
    });
    found.into_iter().zip(readings).collect()
}

/// Reads one file.
pub(super) fn read(found: &Found, root: &Path) -> Reading {
    let unread = |message: String| Reading {
        workflow: None,
        id: None,
        problems: vec![Problem::of_file(message)],
    };
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
    let size = path.metadata().map_err(|error| error.to_string())?.len();
    if size > LARGEST_FILE {
        return Err(format!("the file has {size} bytes; at most {LARGEST_FILE} are read"));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
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
    let found = Found { path: path.into(), format, refused: None };
    Ok(read(&found, path.parent().unwrap_or(path)).problems)
}

/// 1 MB, as the published servers have it.
const LARGEST_FILE: u64 = 1024 * 1024;

/// How many levels of directories are looked through.
const DEEPEST: usize = 8;

const MOST_FILES: usize = 100_000;
const MOST_THREADS: usize = 8;
const WORTH_THREADS: usize = 200;
const LONGEST_CATEGORY: usize = 64;
