//! Atomic creation of the database file.
//!
//! A database whose creation was interrupted cannot be opened, nor distinguished from a
//! file that is no database. So it is created under a temporary name, and renamed when complete.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mcp_flow_store_rows::{StoreOpenError, create_directory};
use redb::Builder;

use crate::error::file_error;

/// Creates a database that only its owner can read, and its directory, unless they exist. On Windows its
/// directory decides who can read it.
pub(crate) fn create(path: &Path, builder: &Builder) -> Result<(), StoreOpenError> {
    if path.exists() {
        return Ok(());
    }
    create_directory(path)?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| StoreOpenError::NoRandomness)?;
    let new = with_suffix(path, &format!("{:016x}{NEW}", u64::from_le_bytes(random)));
    let made = private(&new)
        .map_err(StoreOpenError::Io)
        .and_then(|()| builder.create(&new).map(drop).map_err(file_error))
        .and_then(|()| publish(&new, path).map_err(StoreOpenError::Io));
    // It has its final name by now, or creation failed.
    let _ = fs::remove_file(&new);
    made
}

/// Removes temporary files of interrupted processes. The caller must have the database open, so
/// that no other process is creating it.
pub(crate) fn remove_leftovers(path: &Path) {
    let Some(folder) = path.parent() else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = with_suffix(path, "");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&*prefix) && name.ends_with(NEW) {
            // A leftover only takes space.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Gives a file its final name, unless another process created it first.
fn publish(new: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        // Not every file system has hard links.
        Err(_) => fs::rename(new, path)?,
        Ok(()) => {}
    }
    sync_directory(path)
}

/// Makes the entry of a file in its directory durable.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

/// Does nothing: a directory cannot be synchronized here, and the file system does it by itself.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

fn private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// Appends a dot and a suffix to a path.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Suffix of temporary files.
const NEW: &str = ".new";
