//! Reading of directories again when something in them changes.

use std::path::PathBuf;
use std::sync::Arc;

use mcp_flow_server::Server;
use mcp_flow_workflow::document::FolderWatcher;

use crate::catalog::{Catalog, Snapshot};

/// Keeps a catalog up to date until the watcher is dropped. The server announces changes.
pub(crate) fn watch(catalog: &Arc<Catalog>, server: &Server) -> Result<FolderWatcher, String> {
    // The watcher belongs to what belongs to the server, so neither may be kept alive by it.
    let (weak, server) = (Arc::downgrade(catalog), server.downgrade());
    let directories = catalog.directories().iter().map(PathBuf::as_path);
    FolderWatcher::start("skill-watch", directories, move |_| {
        let Some(catalog) = weak.upgrade() else { return };
        let (before, now) = catalog.reload();
        let Some(server) = server.upgrade() else { return };
        announce(&server, &before, &now);
    })
}

/// Announces what differs between two snapshots.
pub(crate) fn announce(server: &Server, before: &Snapshot, now: &Snapshot) {
    let after: std::collections::HashMap<_, _> = now.files().collect();
    for (uri, file) in before.files() {
        if after.get(uri).is_none_or(|other| other.digest != file.digest) {
            server.resource_changed(uri);
        }
    }
    let is_same = before.skills.len() == now.skills.len()
        && before.skills.iter().zip(&now.skills).all(|(one, other)| one.entry() == other.entry());
    if !is_same {
        server.resources_changed();
    }
}
