//! Key files.
//!
//! A key file is text: one key per line, newest first, each 32 bytes in URL-safe base64; see
//! [`KeyRing`]. Only its owner can read it; on Windows its directory decides who can, which should be one
//! of the user's profile. Several processes may share one: the first creates it, atomically.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::key::{BadKeys, Key};
use crate::key_ring::KeyRing;

/// Reads a key file, or creates one with this key.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("keys");
/// use mcp_flow_seal::{Key, file};
///
/// // The bytes should come from the system's source of randomness.
/// let ring = file::load_or_create(&path, Key::from_bytes([7; 32])).unwrap();
/// let same = file::load_or_create(&path, Key::from_bytes([8; 32])).unwrap();
/// # let seal = mcp_flow_seal::Seal { purpose: "example", bound_to: b"" };
/// # assert!(same.open(seal, 0, &ring.seal(seal, None, b"", [0; 24])).is_ok());
/// ```
pub fn load_or_create(path: &Path, key: Key) -> Result<KeyRing, KeyFileError> {
    match load(path) {
        Err(KeyFileError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {}
        loaded => return loaded,
    }
    let ring = KeyRing::new(key);
    let draft = Draft::write(path, &ring)?;
    match std::fs::hard_link(&draft.path, path) {
        Ok(()) => Ok(ring),
        // Another process created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(path),
        Err(error) => Err(failed(path, error)),
    }
}

/// Reads a key file.
pub fn load(path: &Path) -> Result<KeyRing, KeyFileError> {
    let file = File::open(path).map_err(|error| failed(path, error))?;
    // Checked on the open file, so that it cannot be replaced between check and read.
    check_access(path, &file)?;
    let mut text = Zeroizing::new(String::with_capacity(FILE_LIMIT));
    file.take(FILE_LIMIT as u64).read_to_string(&mut text).map_err(|error| failed(path, error))?;
    text.parse().map_err(|error| KeyFileError::Bad { path: path.to_owned(), error })
}

/// Makes a new key the current one, and keeps the newest `keep` keys.
pub fn rotate(path: &Path, key: Key, keep: usize) -> Result<KeyRing, KeyFileError> {
    let mut ring = load(path)?;
    ring.rotate(key);
    ring.keep(keep);
    let draft = Draft::write(path, &ring)?;
    std::fs::rename(&draft.path, path).map_err(|error| failed(path, error))?;
    Ok(ring)
}

/// Reason a key file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// It cannot be read or written.
    #[error("the key file {} cannot be used", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        error: io::Error,
    },
    /// Other users can read it, so its keys are not secret.
    #[error(
        "the key file {} can be read by others (mode {mode:03o}); run `chmod 600` on it, and if \
         others may have read it, remove it so that a new one is made",
        path.display()
    )]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Its content is not a list of keys.
    #[error("the key file {} cannot be used: {error}", path.display())]
    Bad {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: BadKeys,
    },
}

/// A complete temporary file, removed on drop.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn write(target: &Path, ring: &KeyRing) -> Result<Self, KeyFileError> {
        let (path, mut file) = create_beside(target)?;
        let draft = Self { path };
        let written = file.write_all(ring.to_text().as_bytes()).and_then(|()| file.sync_all());
        written.map_err(|error| failed(&draft.path, error))?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Creates an empty file that only its owner can read, in the directory of another.
fn create_beside(target: &Path) -> Result<(PathBuf, File), KeyFileError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0..100 {
        let path = target.with_file_name(format!(".{name}.{}.{attempt}", std::process::id()));
        match options.open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Err(failed(target, io::ErrorKind::AlreadyExists.into()))
}

#[cfg(unix)]
fn check_access(path: &Path, file: &File) -> Result<(), KeyFileError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().map_err(|error| failed(path, error))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(KeyFileError::Exposed { path: path.to_owned(), mode })
    }
}

/// Not checked on Windows: a file is as private as its directory, and those of a user's profile are.
#[cfg(not(unix))]
fn check_access(_: &Path, _: &File) -> Result<(), KeyFileError> {
    Ok(())
}

fn failed(path: &Path, error: io::Error) -> KeyFileError {
    KeyFileError::Io { path: path.to_owned(), error }
}

/// More than a full ring with comments.
const FILE_LIMIT: usize = 16 * 1024;
