//! Root directories and the files beneath them.
//!
//! A file is opened through a handle of its root directory, never by an absolute path: URIs and
//! links are resolved beneath that handle by the kernel, or by `cap-std` where the kernel cannot,
//! so that no spelling and no race leads out (PAT-021).

mod listing;
pub(crate) mod uri;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use mcp_flow_server::Bulk;

use crate::platform;
pub(crate) use listing::ListingPosition;

/// Directories whose files clients can list, read and subscribe to. Cheap to clone.
///
/// A file's URI is `file://` and its absolute path. Files whose name, or the name of a directory
/// they are in, begins with a dot are not served.
///
/// ```
/// use mcp_flow_files::{Roots, ServeFiles};
/// use mcp_flow_server::Server;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let roots = Roots::directory(std::env::temp_dir())?;
/// let server = Server::builder("files", "1.0.0").resource_roots(roots).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Roots {
    all: Vec<Arc<Root>>,
}

/// One root directory.
#[derive(Debug)]
struct Root {
    directory: Dir,
    /// Its path, for URIs and for watching; never used to open files.
    path: PathBuf,
}

impl Roots {
    /// Serves the files of a directory and its subdirectories.
    pub fn directory(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let path = path.as_ref();
        let open = || {
            let path = path.canonicalize()?;
            let directory = Dir::open_ambient_dir(&path, ambient_authority())?;
            Ok(Root { directory, path })
        };
        let root = open().map_err(|source| RootError { path: path.to_owned(), source })?;
        Ok(Self { all: vec![Arc::new(root)] })
    }

    /// Adds the directories of another.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.all.extend(others.all);
        self
    }

    /// Returns whether there is no directory.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Opens a file by its path within the roots; a leading slash means the root. The first root
    /// that has the file wins.
    ///
    /// Blocks on the file system.
    pub fn open(&self, path: &str) -> io::Result<Bulk> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = uri::relative(path.as_bytes()).ok_or(io::ErrorKind::NotFound)?;
        let mut refusal = io::ErrorKind::NotFound.into();
        for root in &self.all {
            match root.open(&path) {
                Ok(file) => return root.bulk(&path, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// Opens a file by its URI. A missing file and one outside the roots give the same error.
    pub(crate) fn open_uri(&self, uri: &str) -> io::Result<Bulk> {
        let mut refusal = io::ErrorKind::NotFound.into();
        for (root, path) in self.locate(uri) {
            match root.open(&path) {
                Ok(file) => return root.bulk(&path, file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// The paths to watch for the file of a URI, if it exists. A file behind a link has two.
    pub(crate) fn find_uri(&self, uri: &str) -> io::Result<Vec<PathBuf>> {
        let found = self.locate(uri).find(|(root, path)| root.open(path).is_ok());
        let Some((root, path)) = found else { return Err(io::ErrorKind::NotFound.into()) };
        let mut paths = vec![root.path.join(&path)];
        if let Ok(target) = root.directory.canonicalize(&path) {
            let target = root.path.join(target);
            if paths[0] != target {
                paths.push(target);
            }
        }
        Ok(paths)
    }

    /// Returns whether a URI could be that of a file here.
    pub(crate) fn may_have(&self, uri: &str) -> bool {
        self.locate(uri).next().is_some()
    }

    /// The URIs that the file of a URI would be listed under.
    pub(crate) fn spellings(&self, uri: &str) -> impl Iterator<Item = String> {
        self.locate(uri).map(|(root, path)| root.uri(&path))
    }

    fn locate(&self, uri: &str) -> impl Iterator<Item = (&Arc<Root>, PathBuf)> {
        let path = uri::path_of(uri);
        self.all.iter().filter_map(move |root| {
            // Byte by byte: comparing paths would normalise unusual spellings.
            let folder = platform::uri_path(&root.path);
            // The root of a file system ends with a slash.
            let folder = folder.strip_suffix(b"/").unwrap_or(&folder);
            let path = path.as_ref()?.strip_prefix(folder)?.strip_prefix(b"/")?;
            Some((root, uri::relative(path)?))
        })
    }
}

impl Root {
    /// Opens a regular file beneath the root.
    fn open(&self, path: &Path) -> io::Result<File> {
        let file = self.directory.open_with(path, &platform::reading()).map_err(|error| {
            let is_refused = error.raw_os_error() == Some(platform::ACCESS_DENIED);
            if is_refused { error } else { io::ErrorKind::NotFound.into() }
        })?;
        let file = file.into_std();
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn bulk(&self, path: &Path, file: File) -> io::Result<Bulk> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bulk = Bulk::file(name, file)?.with_uri(self.uri(path));
        Ok(match mime_type(path) {
            Some(mime_type) => bulk.with_mime_type(mime_type),
            None => bulk,
        })
    }

    fn uri(&self, path: &Path) -> String {
        uri::of_path(&self.path.join(path))
    }
}

/// A directory that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("the directory {} cannot be served", path.display())]
pub struct RootError {
    /// The directory.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

/// The usual MIME type of a file with this name.
fn mime_type(path: &Path) -> Option<&'static str> {
    mime_guess::from_path(path).first_raw()
}

#[cfg(test)]
mod tests {
    use super::Roots;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// PAT-021, C-39: no spelling of a URI and no link leads out of a root, or to a hidden file.
    #[test]
    fn nothing_outside_a_root_can_be_opened() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("root");
        fs::create_dir_all(folder.join("sub/.git")).unwrap();
        fs::write(outside.path().join("secret.txt"), "secret").unwrap();
        fs::write(outside.path().join("root-secret"), "secret").unwrap();
        for name in ["a.txt", "sub/b c%.txt", "sub/.git/config", ".env"] {
            fs::write(folder.join(name), name).unwrap();
        }
        symlink("../secret.txt", folder.join("out")).unwrap();
        symlink("/etc", folder.join("etc")).unwrap();
        symlink("a.txt", folder.join("in")).unwrap();
        symlink("loop", folder.join("loop")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let roots = Roots::directory(&folder).unwrap();
        let root = folder.canonicalize().unwrap().display().to_string();
        for path in ["/a.txt", "/sub/b%20c%25.txt", "/in", "/%61.txt"] {
            for host in ["", "localhost", "LOCALHOST"] {
                assert!(roots.open_uri(&format!("file://{host}{root}{path}")).is_ok(), "{path}");
            }
        }
        for path in [
            "/../secret.txt",
            "/sub/../../secret.txt",
            "/%2e%2e/secret.txt",
            "/.%2e/secret.txt",
            "/%252e%252e/secret.txt",
            "/..%2fsecret.txt",
            "/..%5csecret.txt",
            "/..\\secret.txt",
            "-secret",
            "/out",
            "/etc/passwd",
            "/loop",
            "/pipe",
            "/a.txt%00",
            "/a.txt\0",
            "/sub",
            "/",
            "",
            "//a.txt",
            "/./a.txt",
            "/sub/../a.txt",
            "/a.txt/",
            "/a.txt?x",
            "/a.txt#x",
            "/%",
            "/%zz",
            "/.env",
            "/sub/.git/config",
            "/sub/%2egit/config",
            "/missing",
        ] {
            let uri = format!("file://{root}{path}");
            assert!(roots.open_uri(&uri).is_err(), "{uri}");
            assert!(roots.find_uri(&uri).is_err(), "{uri}");
        }
        for uri in [
            format!("file://evil.example{root}/a.txt"),
            format!("file:{root}/a.txt"),
            format!("FILE://{root}/a.txt/.."),
            format!("http://localhost{root}/a.txt"),
            "file:///etc/passwd".to_owned(),
            "file://".to_owned(),
            String::new(),
        ] {
            assert!(roots.open_uri(&uri).is_err(), "{uri}");
        }
        for (path, is_there) in [
            ("a.txt", true),
            ("/a.txt", true),
            ("sub/b c%.txt", true),
            ("../secret.txt", false),
            ("/../secret.txt", false),
            ("//a.txt", false),
            ("out", false),
            (".env", false),
            ("/etc/passwd", false),
            ("", false),
            ("a.txt\0", false),
            ("sub\\b", false),
        ] {
            assert_eq!(roots.open(path).is_ok(), is_there, "{path:?}");
        }
        if let Ok(path) = folder.join("a.txt").canonicalize() {
            assert!(roots.open(&path.display().to_string()).is_err(), "the root is /");
        }
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = Roots::directory("/nowhere/to/be/found").unwrap_err();
        assert!(error.to_string().contains("/nowhere/to/be/found"), "{error}");
    }
}
