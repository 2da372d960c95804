//! Where tokens are kept between two runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::OAuthError;
use crate::kept::Kept;

/// What is kept of all servers, each by its own address. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tokens {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Memory(Arc<Mutex<BTreeMap<String, Kept>>>),
    File(PathBuf),
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    servers: BTreeMap<String, Kept>,
}

impl Tokens {
    /// Keeps tokens for as long as this process lives.
    pub fn memory() -> Self {
        Self { place: Place::Memory(Arc::default()) }
    }

    /// Keeps tokens in a file, which is made when there is something to keep, for its owner alone
    /// (mode 0600), and is whole at any time. One that others can read is not used.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { place: Place::File(path.into()) }
    }

    /// The file of this user: `mcp-flow/logins.json` of their data. None where they have no home.
    pub fn usual_file() -> Option<PathBuf> {
        let folder = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".local").join("share"));
        let folder = folder.filter(|folder| folder.is_absolute()).or_else(home)?;
        Some(folder.join("mcp-flow").join("logins.json"))
    }

    pub(crate) fn get(&self, server: &str) -> Result<Option<Kept>, OAuthError> {
        match &self.place {
            Place::Memory(kept) => Ok(lock(kept).get(server).cloned()),
            Place::File(path) => Ok(read(path)?.servers.remove(server)),
        }
    }

    pub(crate) fn put(&self, server: &str, kept: Kept) -> Result<(), OAuthError> {
        self.change(|servers| servers.insert(server.to_owned(), kept)).map(drop)
    }

    /// Forgets what is kept of a server. Says whether there was anything.
    pub(crate) fn remove(&self, server: &str) -> Result<bool, OAuthError> {
        // Nothing is made only to be empty.
        if self.get(server)?.is_none() {
            return Ok(false);
        }
        self.change(|servers| servers.remove(server)).map(|removed| removed.is_some())
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Kept>) -> T,
    ) -> Result<T, OAuthError> {
        match &self.place {
            Place::Memory(kept) => Ok(change(&mut lock(kept))),
            Place::File(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                make_folder(folder).map_err(|error| failed(folder, &error))?;
                let _alone = lock_file(&beside(path, "lock"))?;
                let mut content = read(path)?;
                let outcome = change(&mut content.servers);
                write(path, folder, &content).map_err(|error| failed(path, &error))?;
                Ok(outcome)
            }
        }
    }

    /// Waits until no other process renews a token, which is over as soon as it is used twice.
    pub(crate) async fn renewing(&self) -> Result<Option<File>, OAuthError> {
        let Place::File(path) = &self.place else { return Ok(None) };
        let path = beside(path, "renewing");
        // The lock is waited for on a thread that may wait.
        let waited = tokio::task::spawn_blocking(move || lock_file(&path)).await;
        match waited {
            Ok(locked) => locked.map(Some),
            Err(_) => Ok(None),
        }
    }
}

fn lock(kept: &Mutex<BTreeMap<String, Kept>>) -> std::sync::MutexGuard<'_, BTreeMap<String, Kept>> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> Result<Content, OAuthError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(failed(path, &error)),
    };
    check_access(path, &file)?;
    let text = io::read_to_string(&mut file).map_err(|error| failed(path, &error))?;
    // What the parser says of a token could be the token.
    serde_json::from_str(&text).map_err(|error| OAuthError::File {
        path: path.to_owned(),
        what: format!(
            "holds no tokens in our form (line {}); remove it and log in anew",
            error.line()
        ),
    })
}

/// Writes a file of its own and puts it in the place of the old one, so that there is always one
/// that is whole.
fn write(path: &Path, folder: &Path, content: &Content) -> io::Result<()> {
    // Only its owner can read a temporary file.
    let mut draft = NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut draft, content)?;
    draft.flush()?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

fn lock_file(path: &Path) -> Result<File, OAuthError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|error| failed(path, &error))?;
    file.lock().map_err(|error| failed(path, &error))?;
    Ok(file)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{ending}"))
}

#[cfg(unix)]
fn check_access(path: &Path, file: &File) -> Result<(), OAuthError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().map_err(|error| failed(path, &error))?;
    let mode = metadata.mode() & 0o777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(OAuthError::File {
            path: path.to_owned(),
            what: format!(
                "can be read by others (mode {mode:03o}); if they may have read it, log in anew \
                 after `chmod 600`"
            ),
        }),
    }
}

/// Elsewhere a file belongs to who made it, unless its folder says otherwise.
#[cfg(not(unix))]
fn check_access(_: &Path, _: &File) -> Result<(), OAuthError> {
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> OAuthError {
    OAuthError::File { path: path.to_owned(), what: format!("cannot be used: {error}") }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::Tokens;
    use crate::kept::{Kept, KeptClient};

    fn kept(token: &str) -> Kept {
        let client = KeptClient { id: "me".to_owned(), secret: None, key: None, redirect: None };
        let answer = format!(r#"{{"access_token":"{token}","token_type":"bearer"}}"#);
        Kept::read(client, None, Vec::new(), answer.as_bytes()).unwrap()
    }

    /// MCP-090: the file is its owner's alone, whole at any time, and holds each server's own.
    #[test]
    fn tokens_are_kept_apart_and_for_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("logins.json");
        let tokens = Tokens::file(&path);
        assert!(tokens.get("https://a/").unwrap().is_none() && !path.exists());
        assert!(!tokens.remove("https://a/").unwrap() && !path.exists());
        tokens.put("https://a/", kept("one")).unwrap();
        tokens.put("https://b/", kept("two")).unwrap();
        tokens.put("https://a/", kept("three")).unwrap();
        for (server, token) in
            [("https://a/", Some("three")), ("https://b/", Some("two")), ("https://c/", None)]
        {
            assert_eq!(tokens.get(server).unwrap(), token.map(kept), "{server}");
        }
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        for file in fs::read_dir(path.parent().unwrap()).unwrap() {
            assert_eq!(mode(&file.unwrap().path()) & 0o077, 0);
        }
        assert!(tokens.remove("https://a/").unwrap());
        assert!(tokens.get("https://a/").unwrap().is_none());
        assert!(tokens.get("https://b/").unwrap().is_some());
    }

    /// MCP-090: what others can read is not used, and what is broken is not shown.
    #[test]
    fn a_file_that_cannot_be_trusted_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logins.json");
        let tokens = Tokens::file(&path);
        tokens.put("https://a/", kept("one")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let told = tokens.get("https://a/").unwrap_err().to_string();
        assert!(told.contains("chmod 600"), "{told}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, r#"{"servers": {"https://a/": "s3cret"}}"#).unwrap();
        let told = tokens.get("https://a/").unwrap_err().to_string();
        assert!(told.contains("log in anew") && !told.contains("s3cret"), "{told}");
    }

    /// Writers that come at once do not lose each other's tokens.
    #[test]
    fn writers_at_once_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::file(folder.path().join("logins.json"));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let tokens = &tokens;
                scope.spawn(move || {
                    tokens.put(&format!("https://{number}/"), kept("token")).unwrap();
                });
            }
        });
        for number in 0..16 {
            assert!(tokens.get(&format!("https://{number}/")).unwrap().is_some());
        }
    }
}
