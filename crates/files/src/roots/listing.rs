//! The files of all roots in order, a page at a time.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, DirEntry};
use mcp_flow_proto::model::{Description, ResourceDefinition};

use super::{Root, Roots, mime_type, uri};

/// How far a listing has come: what was looked at last.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    root: u16,
    path: PathBuf,
}

impl Place {
    /// Encodes the place as a position of the listing.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.root.to_be_bytes().to_vec();
        bytes.extend(self.path.as_os_str().as_bytes());
        bytes
    }

    /// Decodes a position of the listing; the empty one is the beginning.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let Some((root, path)) = bytes.split_first_chunk() else { return Self::default() };
        let path = OsString::from_vec(path.to_vec()).into();
        Self { root: u16::from_be_bytes(*root), path }
    }
}

/// What one page of files holds.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) definitions: Vec<ResourceDefinition>,
    /// The directories they are in.
    pub(crate) directories: Vec<PathBuf>,
    /// Where the next page begins.
    pub(crate) next: Option<Place>,
}

impl Roots {
    /// The visible files after a place, up to a number. Blocks for as long as the file system does.
    ///
    /// The work for one page is bounded, so one may hold fewer and still not be the last.
    pub(crate) fn list(
        &self,
        after: &Place,
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Files {
        let mut walk =
            Walk { files: Files::default(), most: most.max(1), left: MOST_LOOKED_AT, is_visible };
        for (number, root) in self.all.iter().enumerate().skip(after.root.into()) {
            let number = u16::try_from(number).unwrap_or(u16::MAX);
            let after = if number == after.root { after.path.as_path() } else { Path::new("") };
            let mut last = after.to_owned();
            if walk.directory(root, &root.directory, Path::new(""), after, &mut last).is_break() {
                walk.files.next = Some(Place { root: number, path: last });
                break;
            }
        }
        walk.files
    }
}

struct Walk<'a> {
    files: Files,
    most: usize,
    /// How many more names may be looked at for this page.
    left: usize,
    is_visible: &'a dyn Fn(&str) -> bool,
}

impl Walk<'_> {
    /// Goes through a directory in order of names, from behind a path. Breaks off when the page is
    /// full; `last` is then what was looked at last.
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
                if path.components().count() < DEEPEST
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
            // A link is resolved from where it is, which may be further down than the root.
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

/// What a directory holds that is not hidden, in order.
fn names(directory: &Dir) -> Vec<(OsString, DirEntry)> {
    let Ok(entries) = directory.entries() else { return Vec::new() };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name(), entry))
        .filter(|(name, _)| !uri::is_hidden(name.as_bytes()))
        .take(MOST_IN_DIRECTORY)
        .collect();
    names.sort_by(|(one, _), (other, _)| one.cmp(other));
    names
}

/// Bounds the work for one page.
const MOST_LOOKED_AT: usize = 20_000;

/// Bounds the memory for one directory; what is beyond is not listed, but can be read.
const MOST_IN_DIRECTORY: usize = 100_000;

/// Bounds how far down a listing goes.
const DEEPEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::{Place, Roots};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// PAT-015, PAT-022: pages of any size show every file that is not hidden, once and in order.
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
            let (mut seen, mut place) = (Vec::new(), Place::default());
            loop {
                let page = roots.list(&place, size, &|uri| !uri.ends_with("/y"));
                assert!(page.definitions.len() <= size);
                seen.extend(page.definitions.into_iter().map(|file| file.description.name));
                let Some(next) = page.next else { break };
                place = Place::from_bytes(&next.to_bytes());
                assert_eq!(place, next);
            }
            assert_eq!(seen, ["x", "c", "b", "g", "in", "z z", "last"], "{size}");
        }
    }
}
