//! Where conversations are kept, and the keys that go with them.

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

use crate::offer::Door;

/// A store by its URL.
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

/// A store and its keys; sessions are in memory if there is no store.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) keys: KeyRing,
    /// What tells old tokens from new ones, for as long as the keys live.
    pub(crate) guard: Arc<dyn ReplayGuard>,
    /// Whether the keys survive the process.
    pub(crate) is_lasting: bool,
    /// Where that is, for people.
    pub(crate) place: String,
}

/// Opens a store, or says what to do if it cannot be opened (C-65).
///
/// `stdio` does without the default one if another process has it or its folder cannot be written
/// to: every client starts a server of its own, often several in one folder. One that is damaged or
/// lacks its key is never passed over, since somebody's conversations are in it.
pub(crate) fn open(url: Option<&StoreUrl>, door: Door) -> anyhow::Result<Kept> {
    let path = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path)) => path,
        None => Path::new(DEFAULT),
    };
    match redb(path) {
        Ok(kept) => Ok(kept),
        Err(error) if url.is_none() && door == Door::Single && is_dispensable(&error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!(
                "conversations are kept in memory and lost when this server ends, because {} \
                 cannot be used: {error:#}. Keep them with --store redb:PATH, or silence this with \
                 --store memory:",
                path.display()
            );
            in_memory()
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            anyhow::bail!(
                "the store {} cannot be used: {error:#}.\n\
                 Choose another file with --store redb:PATH, or keep conversations in memory with \
                 --store memory:",
                path.display()
            )
        }
    }
}

/// Whether a store that cannot be opened for this can be done without.
fn is_dispensable(error: &StoreOpenError) -> bool {
    match error {
        StoreOpenError::InUse | StoreOpenError::Io(_) | StoreOpenError::NoRandomness => true,
        StoreOpenError::KeyFile(error) => matches!(error, KeyFileError::Io { .. }),
        _ => false,
    }
}

/// Only the keys of a store, for tokens that survive a restart.
pub(crate) fn keys_only(url: Option<&StoreUrl>) -> anyhow::Result<Kept> {
    let found = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path)) => keys::find(path),
        None => keys::find(Path::new(DEFAULT)),
    };
    match found {
        Ok(keys) => Ok(Kept { keys, is_lasting: true, ..in_memory()? }),
        Err(error) if url.is_none() => {
            tracing::warn!("tokens will not survive a restart: {error}");
            in_memory()
        }
        Err(error) => Err(error).context("the keys for tokens cannot be had"),
    }
}

/// Opens a store in a file, which may be new.
pub(crate) fn redb(path: &Path) -> Result<Kept, StoreOpenError> {
    let keys = keys::find(path)?;
    let store = Arc::new(RedbStore::open_with_keys(path, keys.clone())?);
    let place = format!("redb:{}", path.display());
    Ok(Kept { store: Some(store.clone()), keys, guard: store, is_lasting: true, place })
}

fn in_memory() -> anyhow::Result<Kept> {
    let mut secret = [0; Key::LENGTH];
    getrandom::fill(&mut secret).map_err(|_| anyhow::anyhow!("the system has no randomness"))?;
    let keys = KeyRing::new(Key::from_bytes(secret));
    let guard = Arc::new(MemoryGuard::new(GUARDED_SESSIONS));
    Ok(Kept { store: None, keys, guard, is_lasting: false, place: MEMORY.to_owned() })
}

const MEMORY: &str = "memory:";

/// For how many conversations a guard in memory remembers a number; so many take a few megabytes.
const GUARDED_SESSIONS: usize = 100_000;

/// Where conversations are kept if nothing else is said.
pub(crate) const DEFAULT: &str = ".mcp-flow/journal.redb";
