//! The log file: locked by one process, continued at its end.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mcp_flow_seal::KeyRing;

use super::AuditError;
use super::chain::{BEGINNING, Chain, Hash, Link, MAX_LINE_LENGTH, hex, sha256};
use super::entry::Entry;

/// An open file and the chain that ends in it.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    pub(super) chain: Chain,
}

impl Log {
    pub(super) fn open(path: &Path, keys: Option<KeyRing>) -> Result<Self, AuditError> {
        let mut file = open_exclusive(path)?;
        let end = end_of(path, &mut file, keys.as_ref())?;
        let mut chain = Chain::new(keys, end.sequence, end.hash);
        let mut lines = Vec::new();
        if end.is_unfinished {
            lines.push(b'\n');
        }
        if !end.torn.is_empty() {
            let entry = Entry::Mended { bytes: end.torn.len(), torn: hex(&sha256(&end.torn)) };
            chain.add(&mut lines, SystemTime::now(), &entry);
            tracing::warn!(
                "the audit log {} ended in {} bytes of an incomplete line, which are now marked",
                path.display(),
                end.torn.len()
            );
        }
        file.write_all(&lines).map_err(|error| failed(path, error))?;
        Ok(Self { path: path.to_owned(), file, chain })
    }

    /// Opens the file that has this name now. A new file continues the chain of the old one.
    pub(super) fn reopen(&mut self) -> Result<(), AuditError> {
        if is_same(&self.path, &self.file) {
            return Ok(());
        }
        let file = open_exclusive(&self.path)?;
        let length = file.metadata().map_err(|error| failed(&self.path, error))?.len();
        // A foreign file; no line of ours may follow it.
        if length > 0 {
            return Err(AuditError::Broken { path: self.path.clone() });
        }
        self.file = file;
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens a file for its owner and this process alone.
fn open_exclusive(path: &Path) -> Result<File, AuditError> {
    let failed = |error| failed(path, error);
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Opening a pipe would block, so the type is checked first.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(AuditError::NoFile { path: path.to_owned() });
    }
    let file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(AuditError::Taken { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    restrict_access(path, &file).map_err(failed)?;
    Ok(file)
}

#[cfg(unix)]
fn restrict_access(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = file.metadata()?.permissions();
    if permissions.mode() & 0o077 != 0 {
        tracing::warn!(
            "the audit log {} was readable by others; its access was restricted to the owner",
            path.display()
        );
        permissions.set_mode(0o600);
        file.set_permissions(permissions)?;
    }
    Ok(())
}

/// On other systems a file's access follows its directory.
#[cfg(not(unix))]
fn restrict_access(_: &Path, _: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn is_same(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |found: io::Result<std::fs::Metadata>| found.ok().map(|one| (one.dev(), one.ino()));
    of(std::fs::metadata(path)) == of(file.metadata())
}

/// On other systems an open file cannot be moved.
#[cfg(not(unix))]
fn is_same(path: &Path, _: &File) -> bool {
    path.exists()
}

/// The end of a file.
struct End {
    sequence: u64,
    hash: Hash,
    /// The bytes after the last valid line, if a process was killed while writing.
    torn: Vec<u8>,
    /// Set if the final line break is missing.
    is_unfinished: bool,
}

fn end_of(path: &Path, file: &mut File, keys: Option<&KeyRing>) -> Result<End, AuditError> {
    let failed = |error| failed(path, error);
    let length = file.metadata().map_err(failed)?.len();
    let from = length.saturating_sub(WINDOW);
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut tail = Vec::new();
    file.take(WINDOW).read_to_end(&mut tail).map_err(failed)?;
    let is_unfinished = tail.last().is_some_and(|last| *last != b'\n');
    let mut end = if is_unfinished { tail.len() } else { tail.len().saturating_sub(1) };
    // From the last line backwards, to a valid one.
    let whole = end;
    while end > 0 {
        let start = tail[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if let Some(link) = Link::read(&tail[start..end], keys) {
            let torn = tail[(end + 1).min(whole)..whole].to_vec();
            return Ok(End { sequence: link.sequence, hash: link.hash, torn, is_unfinished });
        }
        // Only an incomplete line was torn; a complete line that is invalid was changed.
        if !is_unfinished {
            return Err(AuditError::Broken { path: path.to_owned() });
        }
        end = start.saturating_sub(1);
    }
    let has_lines = tail.contains(&b'\n');
    if from > 0 || has_lines {
        return Err(AuditError::Broken { path: path.to_owned() });
    }
    Ok(End { sequence: 0, hash: BEGINNING, torn: tail, is_unfinished })
}

fn failed(path: &Path, error: io::Error) -> AuditError {
    AuditError::Io { path: path.to_owned(), error }
}

/// Room for a few of the longest lines.
const WINDOW: u64 = 4 * MAX_LINE_LENGTH as u64;
