//! Checks of the session store and its key.

use std::path::Path;

use mcp_flow::session::Store as _;
use mcp_flow::store_redb::{RedbStore, keys};

use super::Finding;
use crate::configuration::OfferSection;
use crate::server::store::{DEFAULT, StoreUrl};

/// Opens an existing store and writes to it. A missing one is not created.
pub(super) fn check(offer: &OfferSection) -> Vec<Finding> {
    let path = match &offer.store {
        _ if !offer.interaction || offer.stateless && !offer.replay_guard => {
            return vec![Finding::ok("store", "not needed")];
        }
        Some(StoreUrl::Memory) => {
            let advice = "set offer.store = \"redb:PATH\" to keep them";
            let problem = "sessions are kept in memory and lost when the server exits";
            return vec![Finding::warn("store", problem, advice)];
        }
        Some(StoreUrl::Redb(path)) => path.as_path(),
        None => Path::new(DEFAULT),
    };
    let mut findings = Vec::new();
    findings.extend(check_key(path));
    if !path.exists() {
        findings.push(match is_writable_folder(path) {
            true => Finding::ok("store", format!("{} will be created", path.display())),
            false => Finding::fail(
                "store",
                format!("cannot create {}", path.display()),
                "create its directory and make it writable for the server",
            ),
        });
        return findings;
    }
    findings.push(match open_and_write(path) {
        Ok(()) => Finding::ok("store", format!("{} can be opened and written", path.display())),
        Err(problem) => {
            let problem = format!("cannot open {}: {problem:#}", path.display());
            let advice = "or choose another file or \"memory:\" with --store or offer.store";
            Finding::fail("store", problem, advice)
        }
    });
    findings
}

fn open_and_write(path: &Path) -> anyhow::Result<()> {
    let store = RedbStore::open(path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(store.probe())?)
}

/// Checks that only the owner can read the key that encrypts the store.
fn check_key(journal: &Path) -> Option<Finding> {
    let path = keys::path(journal);
    if std::env::var_os(keys::VARIABLE).is_some() || !path.exists() {
        return None;
    }
    Some(match mcp_flow::seal::file::load(&path) {
        Ok(_) => Finding::ok("key", format!("{} is readable by its owner only", path.display())),
        Err(error) => Finding::fail(
            "key",
            error.to_string(),
            "restore the key from a backup; a store cannot be read without it",
        ),
    })
}

/// Returns whether a file can be created, in its directory or the nearest existing one.
pub(super) fn is_writable_folder(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let may = |folder: &Path| {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
    };
    folder.is_some_and(|folder| folder.is_dir() && may(folder).is_ok())
}
