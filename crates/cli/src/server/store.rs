//! Session stores and their keys.

mod import;
mod url;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::seal::file::KeyFileError;
use mcp_flow::seal::{Key, KeyRing};
use mcp_flow::session::store::{MemoryGuard, ReplayGuard, Store};
use mcp_flow::store_postgres::PostgresStore;
use mcp_flow::store_redb::RedbStore;
use mcp_flow::store_sqlite::{SqliteStore, StoreOpenError, keys};

use crate::server::offer::Exposure;

pub(crate) use url::StoreUrl;

/// Store and its keys. Without a store, sessions are in memory.
#[derive(Debug)]
pub(crate) struct OpenedStore {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) keys: KeyRing,
    /// Replay guard for tokens, which lives as long as the keys.
    pub(crate) guard: Arc<dyn ReplayGuard>,
    /// True if the keys survive the process.
    pub(crate) is_durable: bool,
    /// URL of the store, for people.
    pub(crate) location: String,
}

impl OpenedStore {
    fn durable(store: Arc<impl Store + ReplayGuard>, keys: KeyRing, location: String) -> Self {
        Self { store: Some(store.clone()), keys, guard: store, is_durable: true, location }
    }
}

/// Opens a store (C-65).
///
/// `stdio` falls back to memory if the directory of the default store is not writable. A store that
/// is damaged or lacks its key is an error, since there are sessions in it.
pub(crate) fn open(url: Option<&StoreUrl>, exposure: Exposure) -> anyhow::Result<OpenedStore> {
    let default = StoreUrl::default();
    let chosen = url.unwrap_or(&default);
    match open_url(chosen) {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => in_memory(),
        Err(error)
            if url.is_none() && exposure == Exposure::SingleClient && is_recoverable(&error) =>
        {
            let error = anyhow::Error::new(error);
            tracing::warn!(
                "cannot open the store {chosen}: {error:#}. Sessions are kept in memory and lost when \
                 this server exits. Use --store sqlite:PATH to keep them, or --store memory: to \
                 silence this"
            );
            in_memory()
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            anyhow::bail!(
                "cannot open the store {chosen}: {error:#}.\n\
                 Choose another with --store sqlite:PATH, or keep sessions in memory with --store \
                 memory:"
            )
        }
    }
}

/// Opens the store of a URL, creating it if it does not exist; none in memory.
pub(crate) fn open_url(url: &StoreUrl) -> Result<Option<OpenedStore>, StoreOpenError> {
    let location = url.to_string();
    Ok(Some(match url {
        StoreUrl::Memory => return Ok(None),
        StoreUrl::Redb(path) => {
            let keys = keys::find(path)?;
            let store = Arc::new(RedbStore::open_with_keys(path, keys.clone())?);
            OpenedStore::durable(store, keys, location)
        }
        StoreUrl::Sqlite(path) => {
            import::import(path)?;
            let keys = keys::find(path)?;
            let store = Arc::new(SqliteStore::open_with_keys(path, keys.clone())?);
            OpenedStore::durable(store, keys, location)
        }
        StoreUrl::Postgres(url) => {
            let (keys, created) = postgres_keys()?;
            let store = PostgresStore::open(url, keys.clone()).inspect_err(|error| {
                // The keys of another node are needed, and new ones would hide that.
                if let Some(created) = created.filter(|_| matches!(error, StoreOpenError::WrongKey))
                {
                    let _ = std::fs::remove_file(created);
                }
            })?;
            OpenedStore::durable(Arc::new(store), keys, location)
        }
    }))
}

/// Reads the keys of a database: those of the variable, or of a file that is created on the first
/// node and has to be copied to the others. Returns the file if it was created now.
fn postgres_keys() -> Result<(KeyRing, Option<PathBuf>), StoreOpenError> {
    let path = keys::path(Path::new(POSTGRES));
    let existed = path.exists();
    let keys = keys::find(Path::new(POSTGRES))?;
    Ok((keys, Some(path).filter(|path| !existed && path.exists())))
}

/// Returns whether a server can run without the store after this error.
fn is_recoverable(error: &StoreOpenError) -> bool {
    match error {
        StoreOpenError::InUse | StoreOpenError::Io(_) | StoreOpenError::NoRandomness => true,
        StoreOpenError::KeyFile(error) => matches!(error, KeyFileError::Io { .. }),
        _ => false,
    }
}

/// The keys of a store, with the path that files next to it are named after; none for a store in
/// memory. They are created if there are none yet.
pub(crate) fn keys_of(url: Option<&StoreUrl>) -> anyhow::Result<Option<(PathBuf, KeyRing)>> {
    let path = match url {
        Some(StoreUrl::Memory) => return Ok(None),
        Some(StoreUrl::Redb(path) | StoreUrl::Sqlite(path)) => path.as_path(),
        Some(StoreUrl::Postgres(_)) => Path::new(POSTGRES),
        None => Path::new(DEFAULT),
    };
    let keys = keys::find(path).context("cannot read the keys of the store")?;
    Ok(Some((path.to_owned(), keys)))
}

/// Opens only the keys of a store, for tokens that survive a restart.
pub(crate) fn keys_only(url: Option<&StoreUrl>) -> anyhow::Result<OpenedStore> {
    let found = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path) | StoreUrl::Sqlite(path)) => keys::find(path),
        Some(StoreUrl::Postgres(_)) => postgres_keys().map(|(keys, _)| keys),
        None => keys::find(Path::new(DEFAULT)),
    };
    match found {
        Ok(keys) => Ok(OpenedStore { keys, is_durable: true, ..in_memory()? }),
        Err(error) if url.is_none() => {
            tracing::warn!("session tokens will be invalid after a restart: {error}");
            in_memory()
        }
        Err(error) => Err(error).context("cannot read the keys for session tokens"),
    }
}

fn in_memory() -> anyhow::Result<OpenedStore> {
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret)
        .map_err(|_| anyhow::anyhow!("the system has no source of randomness"))?;
    let keys = KeyRing::new(Key::from_bytes(secret));
    let guard = Arc::new(MemoryGuard::new(GUARDED_SESSIONS));
    let location = StoreUrl::Memory.to_string();
    Ok(OpenedStore { store: None, keys, guard, is_durable: false, location })
}

/// Number of sessions that a replay guard in memory tracks, in a few megabytes.
const GUARDED_SESSIONS: usize = 100_000;

/// Default path of the session store.
pub(crate) const DEFAULT: &str = ".mcp-flow/journal.db";

/// Path beside which the keys of a PostgreSQL database are, unless the variable has them. There is no
/// such file.
const POSTGRES: &str = ".mcp-flow/postgres";
