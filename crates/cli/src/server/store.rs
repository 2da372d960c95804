//! Session stores and their keys.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::seal::file::KeyFileError;
use mcp_flow::seal::{Key, KeyRing};
use mcp_flow::session::store::{MemoryGuard, ReplayGuard, Store};
use mcp_flow::store_redb::{RedbStore, StoreOpenError, keys};
use serde::{Deserialize, Serialize};

use crate::server::offer::Exposure;

/// URL of a session store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum StoreUrl {
    /// `memory:`
    Memory,
    /// `redb:PATH`
    Redb(PathBuf),
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => formatter.write_str("memory:"),
            Self::Redb(path) => write!(formatter, "redb:{}", path.display()),
        }
    }
}

impl TryFrom<String> for StoreUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreUrl> for String {
    fn from(url: StoreUrl) -> Self {
        url.to_string()
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("redb", path)) if !path.is_empty() => Ok(Self::Redb(path.into())),
            _ => Err("use memory: or redb:PATH".to_owned()),
        }
    }
}

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

/// Opens a store (C-65).
///
/// `stdio` falls back to memory if another process uses the default store or its folder is not
/// writable: every client starts a server of its own, often several in one folder. A store that is
/// damaged or lacks its key is an error, since there are sessions in it.
pub(crate) fn open(url: Option<&StoreUrl>, exposure: Exposure) -> anyhow::Result<OpenedStore> {
    let path = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path)) => path,
        None => Path::new(DEFAULT),
    };
    match redb(path) {
        Ok(kept) => Ok(kept),
        Err(error)
            if url.is_none() && exposure == Exposure::SingleClient && is_recoverable(&error) =>
        {
            let error = anyhow::Error::new(error);
            tracing::warn!(
                "cannot open the store {}: {error:#}. Sessions are kept in memory and lost when this \
                 server exits. Use --store redb:PATH to keep them, or --store memory: to silence this",
                path.display()
            );
            in_memory()
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            anyhow::bail!(
                "cannot open the store {}: {error:#}.\n\
                 Choose another file with --store redb:PATH, or keep sessions in memory with --store \
                 memory:",
                path.display()
            )
        }
    }
}

/// Returns whether a server can run without the store after this error.
fn is_recoverable(error: &StoreOpenError) -> bool {
    match error {
        StoreOpenError::InUse | StoreOpenError::Io(_) | StoreOpenError::NoRandomness => true,
        StoreOpenError::KeyFile(error) => matches!(error, KeyFileError::Io { .. }),
        _ => false,
    }
}

/// Opens only the keys of a store, for tokens that survive a restart.
pub(crate) fn keys_only(url: Option<&StoreUrl>) -> anyhow::Result<OpenedStore> {
    let found = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path)) => keys::find(path),
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

/// Opens a store in a file, creating it if it does not exist.
pub(crate) fn redb(path: &Path) -> Result<OpenedStore, StoreOpenError> {
    let keys = keys::find(path)?;
    let store = Arc::new(RedbStore::open_with_keys(path, keys.clone())?);
    let location = format!("redb:{}", path.display());
    Ok(OpenedStore { store: Some(store.clone()), keys, guard: store, is_durable: true, location })
}

fn in_memory() -> anyhow::Result<OpenedStore> {
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret)
        .map_err(|_| anyhow::anyhow!("the system has no source of randomness"))?;
    let keys = KeyRing::new(Key::from_bytes(secret));
    let guard = Arc::new(MemoryGuard::new(GUARDED_SESSIONS));
    Ok(OpenedStore { store: None, keys, guard, is_durable: false, location: MEMORY.to_owned() })
}

const MEMORY: &str = "memory:";

/// Number of sessions that a replay guard in memory tracks, in a few megabytes.
const GUARDED_SESSIONS: usize = 100_000;

/// Default path of the session store.
pub(crate) const DEFAULT: &str = ".mcp-flow/journal.redb";
