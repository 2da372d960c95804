//! The database itself: opening it, and opening it again after it failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use mcp_flow_seal::{KeyRing, Seal};
use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use crate::error::{OpenError, guarded};
use crate::tables::{META, Tables};

/// The database, which is closed and opened again when it fails.
pub(crate) struct Shelf {
    pub(crate) keys: KeyRing,
    open: Box<Opener>,
    /// None while it could not be opened again.
    database: RwLock<Option<Database>>,
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
        let (database, failed) = (RwLock::new(Some(database)), AtomicUsize::new(0));
        Ok(Self { keys, open, database, failed })
    }

    /// Uses the database, after opening it again if need be.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        loop {
            {
                let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(database) = database.as_ref() {
                    return guarded(|| work(database));
                }
            }
            self.reopen()?;
        }
    }

    /// Closes the database and opens it again. What was committed is there then, and nothing else.
    pub(crate) fn reopen(&self) -> Result<(), redb::Error> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Closed first: only one can have it open.
        *database = None;
        *database = Some(guarded(|| Ok::<_, redb::Error>((self.open)(&builder())?))?);
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
