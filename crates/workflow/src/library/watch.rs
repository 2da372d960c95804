//! File watcher that keeps a library up to date.

use super::{Library, LibraryChanges};
use crate::folder::{ChangedFiles, FolderWatcher};

/// Keeps a library up to date until it is dropped.
#[derive(Debug)]
pub struct LibraryWatcher {
    _watcher: FolderWatcher,
}

impl LibraryWatcher {
    pub(super) fn start(
        library: Library,
        tell: impl Fn(LibraryChanges) + Send + 'static,
    ) -> Result<Self, String> {
        let watched = library.clone();
        let watcher =
            FolderWatcher::start("workflow-watch", watched.directories(), move |changed| {
                let changes = reload(&library, changed);
                if changes != LibraryChanges::default() {
                    tell(changes);
                }
            })?;
        Ok(Self { _watcher: watcher })
    }
}

fn reload(library: &Library, changed: ChangedFiles) -> LibraryChanges {
    if changed.everything {
        return library.reload_all();
    }
    let mut all = LibraryChanges::default();
    for path in changed.paths {
        let LibraryChanges { listed, content } = library.reload(&path);
        all.listed.extend(listed);
        all.content.extend(content);
    }
    all
}
