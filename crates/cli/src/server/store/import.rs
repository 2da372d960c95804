//! Import of a redb journal, the default store of earlier versions, into a new SQLite store.
//!
//! It happens once: the new file gets its name when it is complete, and the old one is renamed then.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_flow::session::store::{Append, Epoch, Fence, Filter, PageRequest, Store, StoreError};
use mcp_flow::store_redb::RedbStore;
use mcp_flow::store_sqlite::{SqliteStore, StoreOpenError, keys};

/// Imports the journal beside a store that does not exist yet, if there is one.
pub(super) fn import(path: &Path) -> Result<(), StoreOpenError> {
    let old = path.with_extension("redb");
    let begun = Instant::now();
    while !path.exists() && old.exists() && old != path {
        match RedbStore::open(&old) {
            // Another process may have imported it before it was open here.
            Ok(_) if path.exists() => {}
            Ok(journal) => return copy(journal, &old, path),
            Err(StoreOpenError::InUse) if begun.elapsed() < IMPORT_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy(journal: RedbStore, old: &Path, path: &Path) -> Result<(), StoreOpenError> {
    let draft = path.with_extension("importing");
    for name in [
        draft.clone(),
        with_suffix(&draft, "-wal"),
        with_suffix(&draft, "-shm"),
        with_suffix(&draft, "-turn"),
    ] {
        // Left by a process that was interrupted.
        let _ = std::fs::remove_file(name);
    }
    // Both have their keys in the same file.
    let store = SqliteStore::open_with_keys(&draft, keys::find(old)?)?;
    let copied = std::thread::scope(|scope| {
        // A thread of its own, because this one may serve a runtime already.
        let copied = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| StoreError::Backend(Box::new(error)))?;
            runtime.block_on(copy_sessions(&journal, &store))
        });
        copied.join().unwrap_or_else(|_| Err(StoreError::Closed))
    });
    let (copied, lost) = copied.map_err(|error| {
        StoreOpenError::Unusable(format!("cannot import {}: {error}", old.display()))
    })?;
    // Closing the last connection moves everything into the one file.
    drop(store);
    if with_suffix(&draft, "-wal").exists() {
        let problem =
            format!("cannot import {}: another process uses {}", old.display(), draft.display());
        return Err(StoreOpenError::Unusable(problem));
    }
    let _ = std::fs::remove_file(with_suffix(&draft, "-turn"));
    std::fs::rename(&draft, path).map_err(StoreOpenError::Io)?;
    drop(journal);
    let kept = old.with_extension("redb.imported");
    std::fs::rename(old, &kept).map_err(StoreOpenError::Io)?;
    tracing::info!(
        sessions = copied,
        unreadable = lost,
        "imported {} into {}; the old file is now {}",
        old.display(),
        path.display(),
        kept.display()
    );
    Ok(())
}

/// Copies all sessions, and returns how many there were, and how many could not be read.
async fn copy_sessions(
    journal: &RedbStore,
    store: &SqliteStore,
) -> Result<(usize, usize), StoreError> {
    let (mut copied, mut lost, mut after) = (0, 0, None);
    loop {
        let page = journal.list(Filter::default(), PageRequest { after, most: PAGE }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        let mut appends = Vec::new();
        for listed in page {
            let events = match journal.read(listed.id).await {
                Ok(events) => events,
                Err(StoreError::Damaged(_) | StoreError::Newer(_)) => {
                    lost += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Whoever claims it goes on with the flow.
            let holder = listed.summary.state.is_working().then_some(Epoch::NONE);
            appends.push(store.append(Append {
                id: listed.id,
                length: 0,
                events,
                replace: listed.summary.state.is_final(),
                summary: listed.summary,
                fence: Fence { holder, ..Fence::default() },
            }));
        }
        copied += appends.len();
        for done in futures_util::future::join_all(appends).await {
            done?;
        }
    }
    for turn in journal.turns().await? {
        mcp_flow::session::store::ReplayGuard::keep_turn(store, turn).await?;
    }
    Ok((copied, lost))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Time to wait for another process that imports the journal.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(20);

/// Sessions copied at a time.
const PAGE: usize = 256;
