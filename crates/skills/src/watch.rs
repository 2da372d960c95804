//! Reading directories again when something in them changes.

use std::sync::Weak;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use mcp_flow_server::WeakServer;
use notify::event::{EventKind, ModifyKind};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};

use crate::catalog::{Catalog, Snapshot};

/// Keeps a catalog up to date until it is dropped.
pub(crate) struct Watching {
    /// Its drop disconnects the channel, which ends the thread.
    _watcher: RecommendedWatcher,
}

impl Watching {
    /// Starts to watch the directories of a catalog. What changes is announced by the server.
    pub(crate) fn start(
        catalog: &Catalog,
        reload: Weak<Catalog>,
        server: WeakServer,
    ) -> Result<Self, String> {
        let (report, reports) = mpsc::channel();
        let handler = move |event| {
            // The thread ends after the watcher.
            let _ = report.send(event);
        };
        // Links are not followed by skills either, and could lead anywhere.
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher =
            RecommendedWatcher::new(handler, config).map_err(|error| error.to_string())?;
        for directory in catalog.directories() {
            let watched = watcher.watch(directory, RecursiveMode::Recursive);
            watched.map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        std::thread::Builder::new()
            .name("skill-watch".to_owned())
            .spawn(move || follow(&reload, &server, &reports))
            .map_err(|error| error.to_string())?;
        Ok(Self { _watcher: watcher })
    }
}

fn follow(catalog: &Weak<Catalog>, server: &WeakServer, reports: &Receiver<notify::Result<Event>>) {
    while let Ok(first) = reports.recv() {
        let mut matters = matters(first);
        let begun = Instant::now();
        // A file that is being written reports several times; it is read when that is over.
        while begun.elapsed() < MAX_WAIT {
            match reports.recv_timeout(PAUSE) {
                Ok(report) => matters |= self::matters(report),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        if !matters {
            continue;
        }
        let Some(catalog) = catalog.upgrade() else { return };
        let (before, now) = catalog.reload();
        let Some(server) = server.upgrade() else { return };
        announce(&server, &before, &now);
    }
}

/// Announces what differs between two snapshots.
pub(crate) fn announce(server: &mcp_flow_server::Server, before: &Snapshot, now: &Snapshot) {
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

fn matters(report: notify::Result<Event>) -> bool {
    match report {
        Ok(event) => {
            !matches!(event.kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
        }
        Err(error) => {
            tracing::warn!(%error, "watching skills failed");
            true
        }
    }
}

/// The quiet time before files are read again.
const PAUSE: Duration = Duration::from_millis(20);

/// The longest wait for files that go on changing.
const MAX_WAIT: Duration = Duration::from_secs(1);
