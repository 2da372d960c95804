//! Listing of the files of all roots, in order and in pages.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, DirEntry};
use mcp_flow_proto::model::{Description, ResourceDefinition};

use super::{Root, Roots, mime_type, uri};
use crate::platform;

/// The position in a listing: the last entry visited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListingPosition {
    root: u16,
    path: PathBuf,
}

impl ListingPosition {
    /// Encodes the position as bytes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.root.to_be_bytes().to_vec();
        bytes.extend(platform::to_bytes(self.path.as_os_str()).unwrap_or_default());
        bytes
    }

    /// Decodes a position; the empty one is the start.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let Some((root, path)) = bytes.split_first_chunk() else { return Self::default() };
        let path = platform::from_bytes(path.to_vec()).unwrap_or_default();
        Self { root: u16::from_be_bytes(*root), path: path.into() }
    }
}

/// One page of files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) definitions: Vec<ResourceDefinition>,
    /// The directories they are in.
    pub(crate) directories: Vec<PathBuf>,
    /// The position of the next page.
    pub(crate) next: Option<ListingPosition>,
}

impl Roots {
    /// The visible files after a position, up to a number. Blocks on the file system.
    ///
    /// The work per page is bounded, so a page may be short without being the last.
    pub(crate) fn list(
        &self,
        after: &ListingPosition,
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Files {
        let mut lister =
            Lister { files: Files::default(), most: most.max(1), left: MAX_VISITED, is_visible };
        for (number, root) in self.all.iter().enumerate().skip(after.root.into()) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let after = if number == after.root { after.path.as_path() } else { Path::new("") };
            let mut last = after.to_owned();
            if lister.directory(root, &root.directory, Path::new(""), after, &mut last).is_break() {
                lister.files.next = Some(ListingPosition { root: number, path: last });
                break;
            }
        }
        lister.files
    }
}

struct Lister<'a> {
    files: Files,
    most: usize,
    /// Remaining names that may be visited for this page.
    left: usize,
    is_visible: &'a dyn Fn(&str) -> bool,
}

impl Lister<'_> {
    /// Visits a directory in order of names, after a path. Breaks when the page is full; `last` is
    /// then the last entry visited.
    fn directory(
        &mut self,
        root: &Root,
        directory: &Dir,
        place: &Path,
        after: &Path,
        last: &mut PathBuf,
    ) -> ControlFlow<()> {
        let mut components = after.components();
        let first = match components.next() {
            Some(Component::Normal(name)) => Some(name),
            _ => None,
        };
        let mut directory_is_noted = false;
        for (name, entry) in names(directory) {
            let rest = match first {
                Some(first) if name.as_os_str() < first => continue,
                Some(first) if name == first => {
                    if components.as_path().as_os_str().is_empty() {
                        continue;
                    }
                    components.as_path()
                }
                _ => Path::new(""),
            };
            if self.left == 0 {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            let path = place.join(&name);
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if path.components().count() < MAX_DEPTH
                    && let Ok(inner) = entry.open_dir()
                {
                    self.directory(root, &inner, &path, rest, last)?;
                }
            } else if let Some(definition) = self.define(root, directory, &path, &entry) {
                if self.files.definitions.len() == self.most {
                    return ControlFlow::Break(());
                }
                self.files.definitions.push(definition);
                if !directory_is_noted {
                    directory_is_noted = true;
                    self.files.directories.push(root.path.join(place));
                }
            }
            *last = path;
        }
        ControlFlow::Continue(())
    }

    /// Describes a regular file, or a link to one beneath the root.
    fn define(
        &self,
        root: &Root,
        directory: &Dir,
        path: &Path,
        entry: &DirEntry,
    ) -> Option<ResourceDefinition> {
        let name = path.file_name()?;
        let metadata = match entry.file_type().ok()? {
            kind if kind.is_file() => entry.metadata(),
            // A link is resolved from its own directory.
            kind if kind.is_symlink() => {
                directory.metadata(name).or_else(|_| root.directory.metadata(path))
            }
            _ => return None,
        };
        let size = metadata.ok().filter(cap_std::fs::Metadata::is_file)?.len();
        let uri = root.uri(path);
        (self.is_visible)(&uri).then(|| ResourceDefinition {
            uri,
            description: Description {
                name: name.to_string_lossy().into_owned(),
                mime_type: mime_type(path).map(str::to_owned),
                ..Description::default()
            },
            size: Some(size),
        })
    }
}

/// The entries of a directory that are not hidden, in order.
fn names(directory: &Dir) -> Vec<(OsString, DirEntry)> {
    let Ok(entries) = directory.entries() else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name(), entry))
        .filter(|(name, _)| !uri::is_hidden(name))
        .take(MAX_IN_DIRECTORY)
        .collect();
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    names
}

/// Bounds the work per page.
const MAX_VISITED: usize = 20_000;

/// Bounds the memory per directory; further files are not listed, but can be read.
const MAX_IN_DIRECTORY: usize = 100_000;

/// Bounds the depth of a listing.
const MAX_DEPTH: usize = 64;

#[cfg(test)]
mod tests {
    use super::{ListingPosition, Roots};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// PAT-015, PAT-022: pages of any size show every visible file once and in order.
    #[test]
    fn pages_cover_all_files_once() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["b", "a/c", "a/b/x", "a/b/y", "d/e/f/g", ".hidden/x", "a/.secret", "z z"] {
            let path = one.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        fs::create_dir(one.path().join("empty")).unwrap();
        symlink("/etc/passwd", one.path().join("out")).unwrap();
        symlink("a/c", one.path().join("in")).unwrap();
        symlink("a", one.path().join("link")).unwrap();
        fs::write(other.path().join("last"), "").unwrap();
        let roots = Roots::directory(one.path()).unwrap();
        let roots = roots.and(Roots::directory(other.path()).unwrap());
        for size in [1, 2, 3, 100] {
            let (mut seen, mut place) = (Vec::new(), ListingPosition::default());
            loop {
                let page = roots.list(&place, size, &|uri| !uri.ends_with("/y"));
                assert!(page.definitions.len() <= size);
                seen.extend(page.definitions.into_iter().map(|file| file.description.name));
                let Some(next) = page.next else { break };
                place = ListingPosition::from_bytes(&next.to_bytes());
                assert_eq!(place, next);
            }
            assert_eq!(seen, ["x", "c", "b", "g", "in", "z z", "last"], "{size}");
        }
    }
}
