//! Making the file of journals: all of it or nothing, whenever the process may end.
//!
//! A database that was interrupted while it was made cannot be opened nor told from a file that is
//! something else. So it is made under another name, and gets its own when it is whole.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use redb::Builder;

use crate::error::OpenError;

/// Makes a database that only its owner can read, and its folder, if they are not there.
pub(crate) fn database(path: &Path, builder: &Builder) -> Result<(), OpenError> {
    if path.exists() {
        return Ok(());
    }
    folder(path)?;
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| OpenError::NoRandomness)?;
    let new = beside(path, &format!("{:016x}{NEW}", u64::from_le_bytes(random)));
    let made = private(&new)
        .map_err(OpenError::Io)
        .and_then(|()| builder.create(&new).map(drop).map_err(OpenError::from))
        .and_then(|()| publish(&new, path).map_err(OpenError::Io));
    // By now it has its own name, or is of no use.
    let _ = fs::remove_file(&new);
    made
}

/// Removes what interrupted processes have left. To be called by who has the database open: nobody
/// else can then be making one that is still wanted.
pub(crate) fn clean_up(path: &Path) {
    let Some(folder) = path.parent() else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = beside(path, "");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&*prefix) && name.ends_with(NEW) {
            // It takes room and does no harm otherwise.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the folder a file is in.
pub(crate) fn folder(path: &Path) -> Result<(), OpenError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(OpenError::Io)
}

/// Gives a file its name, unless another process was faster: then that one's counts.
fn publish(new: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        // Not every file system has links.
        Err(_) => fs::rename(new, path)?,
        Ok(()) => {}
    }
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        // The name is as durable as what it names.
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

/// A path with a dot and something more at its end.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(end);
    name.into()
}

/// How the names of files end that are not whole.
const NEW: &str = ".new";
