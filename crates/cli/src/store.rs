//! Where conversations are kept, and the keys that go with them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::seal::file::KeyFileError;
use mcp_flow::seal::{Key, KeyRing};
use mcp_flow::session::SessionId;
use mcp_flow::session::store::{MemoryGuard, ReplayGuard, Store, StoreError};
use mcp_flow::store_redb::{OpenError, RedbStore, keys};
use serde::{Deserialize, Serialize};

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

/// Opens a store. The default one is done without if it cannot be had, because several servers may
/// run in one folder, and some folders cannot be written to. One that is there and cannot be read
/// for want of its key, or because it is damaged, is not passed over: somebody's conversations are
/// in it.
pub(crate) fn open(url: Option<&StoreUrl>) -> anyhow::Result<Kept> {
    let path = match url {
        Some(StoreUrl::Memory) => return in_memory(),
        Some(StoreUrl::Redb(path)) => path,
        None => Path::new(DEFAULT),
    };
    match redb(path) {
        Ok(kept) => Ok(kept),
        Err(error) if url.is_none() && is_dispensable(&error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!("conversations are kept in memory: {error:#}");
            in_memory()
        }
        Err(error) => {
            Err(error).with_context(|| format!("the store {} cannot be used", path.display()))
        }
    }
}

/// Whether a store that cannot be opened for this can be done without.
fn is_dispensable(error: &OpenError) -> bool {
    match error {
        OpenError::InUse | OpenError::Io(_) | OpenError::NoRandomness => true,
        OpenError::KeyFile(error) => matches!(error, KeyFileError::Io { .. }),
        _ => false,
    }
}

/// Whether a store can be written to: forgetting what is not there changes nothing, and is written
/// like anything else.
pub(crate) async fn probe(store: &dyn Store) -> Result<(), StoreError> {
    store.erase(SessionId::from_random(0)).await
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

fn redb(path: &Path) -> Result<Kept, OpenError> {
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
