//! The redb database: opening it, and reopening it after a failure.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mcp_flow_seal::KeyRing;
use mcp_flow_store_rows::{StoreOpenError, check_keys, seal_check};
use parking_lot::RwLock;
use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use crate::error::{catch_panic, file_error, guarded, open_error};
use crate::tables::{META, Tables};

/// Database of journals, reopened after a failure.
pub(crate) struct JournalDatabase {
    pub(crate) keys: KeyRing,
    open: Box<Opener>,
    /// None while it cannot be reopened.
    database: RwLock<Option<Database>>,
    /// Set when work on the database panicked, until it is reopened.
    panicked: AtomicBool,
    /// Size of the largest failed write, until one as large succeeds.
    failed: AtomicUsize,
}

type Opener = dyn Fn(&Builder) -> Result<Database, DatabaseError> + Send + Sync;

impl JournalDatabase {
    pub(crate) fn open(open: Box<Opener>, keys: KeyRing) -> Result<Self, StoreOpenError> {
        let database = guarded(|| {
            let database = open(&builder()).map_err(file_error)?;
            prepare(&database, &keys)?;
            Ok(database)
        })?;
        Ok(Self {
            keys,
            open,
            database: RwLock::new(Some(database)),
            panicked: AtomicBool::new(false),
            failed: AtomicUsize::new(0),
        })
    }

    /// Runs work on the database, after reopening it if that is needed.
    ///
    /// A panic becomes an error, and the next call reopens: redb may hold poisoned locks and
    /// half-made changes in memory by then.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        loop {
            {
                let database = self.database.read();
                if let Some(database) = self.usable(&database) {
                    return catch_panic(|| work(database)).unwrap_or_else(|panic| {
                        self.panicked.store(true, Ordering::Release);
                        Err(panic)
                    });
                }
            }
            let mut database = self.database.write();
            // Another caller may have been faster.
            if self.usable(&database).is_none() {
                self.replace(&mut database)?;
            }
        }
    }

    /// Closes the database and opens it again. Only what was committed is there then.
    pub(crate) fn reopen(&self) -> Result<(), redb::Error> {
        self.replace(&mut self.database.write())
    }

    fn usable<'a>(&self, database: &'a Option<Database>) -> Option<&'a Database> {
        database.as_ref().filter(|_| !self.panicked.load(Ordering::Acquire))
    }

    fn replace(&self, database: &mut Option<Database>) -> Result<(), redb::Error> {
        // Closed first, because a file can be open once only.
        close(database);
        *database = Some(catch_panic(|| (self.open)(&builder()))??);
        self.panicked.store(false, Ordering::Release);
        Ok(())
    }

    /// Records whether a write of this size succeeded. A full disk still takes small writes, so
    /// only one as large as the failed one shows that there is space again.
    pub(crate) fn record_write(&self, size: usize, succeeded: bool) {
        match succeeded {
            true if size >= self.failed_size() => self.failed.store(0, Ordering::Relaxed),
            true => {}
            false => _ = self.failed.fetch_max(size.min(PROBE_LIMIT), Ordering::Relaxed),
        }
    }

    /// Returns the size of the largest failed write, or 0.
    pub(crate) fn failed_size(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for JournalDatabase {
    fn drop(&mut self) {
        close(self.database.get_mut());
    }
}

/// Closes the database. One that panicked may panic again on close, which is ignored: it is
/// reopened from what was committed.
fn close(database: &mut Option<Database>) {
    let database = database.take();
    let _ = catch_panic(|| drop(database));
}

/// Creates the tables, or checks format and keys of existing ones.
fn prepare(database: &Database, keys: &KeyRing) -> Result<(), StoreOpenError> {
    let reading = database.begin_read().map_err(|error| open_error(error.into()))?;
    let meta = match reading.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return create(database, keys),
        Err(error) => return Err(open_error(error.into())),
    };
    let value = |name: &str| -> Result<Vec<u8>, redb::Error> {
        Ok(meta.get(name)?.map_or_else(Vec::new, |value| value.value().to_vec()))
    };
    let format = value("format").map_err(open_error)?;
    let found = format.as_slice().try_into().map_or(0, u32::from_le_bytes);
    if found != FORMAT {
        return Err(StoreOpenError::Format { found, known: FORMAT });
    }
    check_keys(keys, &value("seal").map_err(open_error)?)?;
    // Sealed again with the current key, so that older ones can be dropped.
    create(database, keys)
}

fn create(database: &Database, keys: &KeyRing) -> Result<(), StoreOpenError> {
    let sealed = seal_check(keys)?;
    let write = || -> Result<(), redb::Error> {
        let mut transaction = database.begin_write()?;
        transaction.set_quick_repair(true);
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert("format", FORMAT.to_le_bytes().as_slice())?;
            meta.insert("seal", sealed.as_slice())?;
            Tables::open(&transaction)?;
        }
        transaction.commit()?;
        Ok(())
    };
    write().map_err(open_error)
}

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Small, since journals are read rarely and one by one.
const CACHE: usize = 16 * 1024 * 1024;
/// Largest probe: it must not fill the disk itself.
const PROBE_LIMIT: usize = 16 * 1024 * 1024;
const FORMAT: u32 = 1;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use mcp_flow_seal::{Key, KeyRing};
    use redb::Builder;
    use redb::backends::InMemoryBackend;

    use super::JournalDatabase;

    /// redb may hold poisoned locks after a panic, so the next use reopens the database, also if
    /// both are reads.
    #[test]
    fn a_database_that_panicked_is_reopened() {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let open = move |builder: &Builder| {
            count.fetch_add(1, Ordering::SeqCst);
            builder.create_with_backend(InMemoryBackend::new())
        };
        let keys = KeyRing::new(Key::from_bytes([1; 32]));
        let journals = JournalDatabase::open(Box::new(open), keys).unwrap();
        let failed =
            journals.with(|_| -> Result<(), redb::Error> { panic!("an assertion failed") });
        assert!(matches!(failed, Err(redb::Error::Corrupted(_))), "{failed:?}");
        for _ in 0..3 {
            journals.with(|_| Ok(())).unwrap();
            assert_eq!(opened.load(Ordering::SeqCst), 2);
        }
    }
}
