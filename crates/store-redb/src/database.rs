//! The database itself: opening it, and opening it again after it failed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use mcp_flow_seal::{KeyRing, Seal};
use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use crate::error::{OpenError, catch_panic, guarded};
use crate::tables::{META, Tables};

/// The database, which is closed and opened again when it fails.
pub(crate) struct Shelf {
    pub(crate) keys: KeyRing,
    open: Box<Opener>,
    /// None while it could not be opened again.
    database: RwLock<Option<Database>>,
    /// Set when work on the database panicked, until it is reopened.
    panicked: AtomicBool,
    /// The size of the largest write that failed since one as large succeeded.
    failed: AtomicUsize,
}

type Opener = dyn Fn(&Builder) -> Result<Database, DatabaseError> + Send + Sync;

impl Shelf {
    pub(crate) fn open(open: Box<Opener>, keys: KeyRing) -> Result<Self, OpenError> {
        let database = guarded(|| {
            let database = open(&builder())?;
            prepare(&database, &keys)?;
            Ok::<_, OpenError>(database)
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
                let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(database) = self.usable(&database) {
                    return catch_panic(|| work(database)).unwrap_or_else(|panic| {
                        self.panicked.store(true, Ordering::Release);
                        Err(panic)
                    });
                }
            }
            let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
            // Another caller may have been faster.
            if self.usable(&database).is_none() {
                self.replace(&mut database)?;
            }
        }
    }

    /// Closes the database and opens it again. Only what was committed is there then.
    pub(crate) fn reopen(&self) -> Result<(), redb::Error> {
        self.replace(&mut self.database.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn usable<'a>(&self, database: &'a Option<Database>) -> Option<&'a Database> {
        database.as_ref().filter(|_| !self.panicked.load(Ordering::Acquire))
    }

    fn replace(&self, database: &mut Option<Database>) -> Result<(), redb::Error> {
        // Closed first, because a file can be open once only.
        close(database);
        *database = Some(guarded(|| Ok::<_, redb::Error>((self.open)(&builder())?))?);
        self.panicked.store(false, Ordering::Release);
        Ok(())
    }

    /// Notes whether a write of this size has succeeded. A full disk still takes small ones, so only
    /// one as large as what failed shows that there is room again.
    pub(crate) fn note(&self, size: usize, succeeded: bool) {
        match succeeded {
            true if size >= self.failed() => self.failed.store(0, Ordering::Relaxed),
            true => {}
            false => _ = self.failed.fetch_max(size.min(LARGEST), Ordering::Relaxed),
        }
    }

    /// The size of the write that has to succeed before the disk can be trusted again, or 0.
    pub(crate) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        close(self.database.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Closes the database. Closing one that panicked before may panic again, which is of no interest:
/// it is opened from what was committed.
fn close(database: &mut Option<Database>) {
    let database = database.take();
    let _ = catch_panic(|| drop(database));
}

/// Makes the tables and checks the keys, or checks that they are as they should be.
fn prepare(database: &Database, keys: &KeyRing) -> Result<(), OpenError> {
    let reading = database.begin_read().map_err(redb::Error::from)?;
    let meta = match reading.open_table(META) {
        Ok(meta) => meta,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(create(database, keys)?),
        Err(error) => return Err(redb::Error::from(error).into()),
    };
    let value = |name: &str| -> Result<Vec<u8>, redb::Error> {
        Ok(meta.get(name)?.map_or_else(Vec::new, |value| value.value().to_vec()))
    };
    let format = value("format")?;
    let found = format.as_slice().try_into().map_or(0, u32::from_le_bytes);
    if found != FORMAT {
        return Err(OpenError::Format { found, known: FORMAT });
    }
    if keys.open_bytes(seal(), 0, &value("seal")?).is_err() {
        return Err(OpenError::WrongKey);
    }
    // With the current key, so that older ones can go.
    Ok(create(database, keys)?)
}

fn create(database: &Database, keys: &KeyRing) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    {
        let mut random = [0; 24];
        getrandom::fill(&mut random)
            .map_err(|error| redb::Error::Io(std::io::Error::other(error.to_string())))?;
        let mut meta = transaction.open_table(META)?;
        meta.insert("format", FORMAT.to_le_bytes().as_slice())?;
        meta.insert("seal", keys.seal_bytes(seal(), None, KNOWN, random).as_slice())?;
        Tables::open(&transaction)?;
    }
    transaction.commit()?;
    Ok(())
}

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

const fn seal() -> Seal<'static> {
    Seal { purpose: "journal", bound_to: b"" }
}

/// Journals are read once in a while, each by itself; a large cache would hold what nobody needs.
const CACHE: usize = 16 * 1024 * 1024;
/// The largest write that has to succeed again: a probe must not fill the disk itself.
const LARGEST: usize = 16 * 1024 * 1024;
const FORMAT: u32 = 1;
const KNOWN: &[u8] = b"the keys are right";
