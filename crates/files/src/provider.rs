//! Provider of files as resources of a server.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use mcp_flow_server::resource::{ReadError, ResourcePage, ResourceProvider, WatchGuard};
use mcp_flow_server::{Bulk, Context, Server, ServerBuilder};

use crate::roots::{ListingPosition, Roots};
use crate::watch::{Change, Watch};

/// Extends [`ServerBuilder`] by file resources.
pub trait ServeFiles: Sized {
    /// Serves the files of directories as resources.
    fn resource_roots(self, roots: Roots) -> Self;
}

impl ServeFiles for ServerBuilder {
    fn resource_roots(self, roots: Roots) -> Self {
        // A server without directories does not declare resources.
        if roots.is_empty() {
            return self;
        }
        self.resource_provider(FileProvider { roots, watch: OnceLock::new() })
    }
}

struct FileProvider {
    roots: Roots,
    /// Started when a file is first subscribed to or listed.
    watch: OnceLock<Result<Arc<Watch>, String>>,
}

impl FileProvider {
    fn watcher(&self, server: &Server) -> Result<&Arc<Watch>, &str> {
        let start = || {
            let server = server.downgrade();
            let watch = Watch::start(move |change| {
                let Some(server) = server.upgrade() else { return };
                match change {
                    Change::Resource(uri) => server.resource_changed(uri),
                    Change::List => server.resources_changed(),
                }
            });
            watch.map(Arc::new)
        };
        self.watch.get_or_init(start).as_ref().map_err(String::as_str)
    }
}

impl ResourceProvider for FileProvider {
    fn claims(&self, uri: &str) -> bool {
        self.roots.may_have(uri)
    }

    fn listed_uris(&self, uri: &str) -> Vec<String> {
        self.roots.spellings(uri).collect()
    }

    fn list(
        &self,
        server: &Server,
        position: &[u8],
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> ResourcePage {
        let files = self.roots.list(&ListingPosition::from_bytes(position), most, is_visible);
        match self.watcher(server) {
            Ok(watch) => watch.watch_lists(files.directories),
            Err(error) => tracing::debug!(error, "files cannot be watched"),
        }
        let next = files.next.as_ref().map(ListingPosition::to_bytes);
        ResourcePage { definitions: files.definitions, next }
    }

    fn open(&self, uri: &str) -> Result<Bulk, ReadError> {
        self.roots.open_uri(uri).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                ReadError::Denied("The server may not read this file.".to_owned())
            }
            _ => error.into(),
        })
    }

    fn watch(&self, context: &Context, uri: &Arc<str>) -> Result<WatchGuard, ReadError> {
        let files = self.roots.find_uri(uri)?;
        let watch = self.watcher(context.server());
        let watch = watch.map_err(|error| ReadError::Failed(error.to_owned()))?;
        let mut watched =
            WatchedFiles { watch: watch.clone(), uri: uri.clone(), files: Vec::new() };
        for file in files {
            watch.watch(&file, uri).map_err(ReadError::Failed)?;
            watched.files.push(file);
        }
        Ok(Box::new(watched))
    }
}

/// The watched paths of one subscription, until dropped.
struct WatchedFiles {
    watch: Arc<Watch>,
    uri: Arc<str>,
    files: Vec<PathBuf>,
}

impl Drop for WatchedFiles {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| self.watch.release(file, &self.uri));
    }
}
