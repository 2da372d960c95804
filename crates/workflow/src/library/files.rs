//! Reading the workflow files of a directory.

use std::io;
use std::path::Path;

use crate::folder::{FoundFile, read_each};
use crate::problem::Problem;
use crate::read::Reading;

/// Reads many files, on several threads if there are enough.
pub(super) fn read_all(found: Vec<FoundFile>, root: &Path) -> Vec<(FoundFile, Reading)> {
    let readings = read_each(&found, &|found| read(found, root));
    let unreadable = || unread("the file cannot be read; please report this".to_owned());
    let readings = readings.into_iter().map(|reading| reading.unwrap_or_else(unreadable));
    let readings: Vec<_> = readings.collect();
    found.into_iter().zip(readings).collect()
}

fn unread(message: String) -> Reading {
    Reading { workflow: None, id: None, problems: vec![Problem::of_file(message)] }
}

/// Reads one file.
pub(super) fn read(found: &FoundFile, root: &Path) -> Reading {
    let text = match found.read(MAX_FILE_BYTES) {
        Ok(text) => text,
        Err(message) => return unread(message),
    };
    let folder = found.path.parent().filter(|folder| *folder != root);
    let category = folder.and_then(|folder| folder.file_name()).and_then(|name| name.to_str());
    let category = category.filter(|name| name.len() <= MAX_CATEGORY_LENGTH);
    Reading::of(&text, found.format, category.unwrap_or("general"))
}

pub(super) fn check(path: &Path) -> io::Result<Vec<Problem>> {
    path.metadata()?;
    Ok(read(&FoundFile::named(path), path.parent().unwrap_or(path)).problems)
}

/// Limit on the size of a file: 1 MB, as in the published servers.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

const MAX_CATEGORY_LENGTH: usize = 64;
