//! Creation of the database, and the settings of its connections.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_flow_seal::KeyRing;
use mcp_flow_store_rows::{StoreOpenError, check_keys, create_directory, seal_check};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::error::open_error;

/// Creates the database unless it exists, and checks its format and keys.
pub(crate) fn prepare(path: &Path, keys: &KeyRing) -> Result<(), StoreOpenError> {
    create_directory(path)?;
    refuse_network(path)?;
    // SQLite gives its other files the same permissions.
    private(path).map_err(StoreOpenError::Io)?;
    let turn = turn_file(path).map_err(StoreOpenError::Io)?;
    turn.lock().map_err(StoreOpenError::Io)?;
    let mut connection = connect(path, true).map_err(open_error)?;
    let format: u32 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(open_error)?;
    if format > FORMAT {
        return Err(StoreOpenError::Format { found: format, known: FORMAT });
    }
    let sealed = seal_check(keys)?;
    let create = |connection: &mut Connection| -> rusqlite::Result<Option<Vec<u8>>> {
        let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if format < FORMAT {
            writing.execute_batch(TABLES)?;
            writing.pragma_update(None, "user_version", FORMAT)?;
        }
        // Not in the first files of this format.
        writing.execute_batch(RECORDS)?;
        let known = "SELECT value FROM meta WHERE name = 'seal'";
        let known: Option<Vec<u8>> = writing.query_row(known, [], |row| row.get(0)).optional()?;
        // Sealed again with the current key, so that older ones can be dropped.
        if known.as_ref().is_none_or(|known| check_keys(keys, known).is_ok()) {
            let keep = "INSERT OR REPLACE INTO meta (name, value) VALUES ('seal', ?1)";
            writing.execute(keep, [&sealed])?;
        }
        writing.commit()?;
        Ok(known)
    };
    match create(&mut connection).map_err(open_error)? {
        Some(known) => check_keys(keys, &known),
        None => Ok(()),
    }
}

/// Opens a connection. Only one that is durable waits for the disk on commit.
pub(crate) fn connect(path: &Path, is_durable: bool) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", if is_durable { "full" } else { "normal" })?;
    // In kibibytes: small, since journals are read rarely and one by one.
    connection.pragma_update(None, "cache_size", -4096)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Opens the file whose lock processes take in turn to write.
pub(crate) fn turn_file(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push("-turn");
    private(&PathBuf::from(name))
}

/// Opens a file that only its owner can read, creating it if it does not exist. On Windows its directory
/// decides who can read it.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Refuses file systems of other machines, where locks and shared memory do not work. The file may
/// be a link to one.
#[cfg(target_os = "linux")]
fn refuse_network(path: &Path) -> Result<(), StoreOpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = if path.exists() { path } else { folder.unwrap_or(Path::new(".")) };
    let system = rustix::fs::statfs(folder).map_err(|error| StoreOpenError::Io(error.into()))?;
    let network = NETWORKS.iter().find(|(number, _)| system.f_type == *number);
    match network {
        Some((_, name)) => Err(StoreOpenError::Unusable(format!(
            "{} is on a network file system ({name}), where SQLite would lose data; use a directory \
             on a local disk, or a server: --store postgres://USER@HOST/DB",
            folder.display()
        ))),
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_: &Path) -> Result<(), StoreOpenError> {
    Ok(())
}

/// Numbers of network file systems, from statfs(2).
#[cfg(target_os = "linux")]
const NETWORKS: [(rustix::fs::FsWord, &str); 5] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
];

const FORMAT: u32 = 1;

/// SQLite's own waiting, beyond that for the turn file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE session (
    id BLOB PRIMARY KEY,
    length INTEGER NOT NULL,
    state INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    deadline INTEGER,
    due INTEGER,
    holder INTEGER,
    owner BLOB NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX session_owner ON session (owner, id);
CREATE INDEX session_due ON session (due) WHERE due IS NOT NULL;
CREATE INDEX session_holder ON session (holder) WHERE holder IS NOT NULL;
CREATE INDEX session_working ON session (id) WHERE state IN (0, 1, 3);
CREATE INDEX session_ended ON session (id) WHERE state >= 4;
CREATE TABLE journal (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    session BLOB NOT NULL,
    position INTEGER NOT NULL,
    previous INTEGER,
    node INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE TABLE node (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,
    boot TEXT NOT NULL,
    until INTEGER NOT NULL,
    info TEXT NOT NULL
);
CREATE TABLE message (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    recipient INTEGER,
    until INTEGER NOT NULL,
    value BLOB NOT NULL
);
CREATE TABLE turn (id BLOB PRIMARY KEY, turn INTEGER NOT NULL, eviction INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX turn_eviction ON turn (eviction, id);
";

const RECORDS: &str = "
CREATE TABLE IF NOT EXISTS record (
    key TEXT PRIMARY KEY,
    holder INTEGER NOT NULL,
    until INTEGER NOT NULL,
    value BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS record_until ON record (until);
";
