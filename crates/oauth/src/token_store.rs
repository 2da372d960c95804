//! Storage of tokens between runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::OAuthError;
use crate::stored_token::StoredToken;

/// Tokens of all servers, by server URL. Clones share the storage.
#[derive(Clone, Debug)]
pub struct TokenStore {
    storage: Storage,
}

#[derive(Clone, Debug)]
enum Storage {
    Memory(Arc<Mutex<BTreeMap<String, StoredToken>>>),
    File(PathBuf),
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    servers: BTreeMap<String, StoredToken>,
}

impl TokenStore {
    /// Stores tokens in memory, for the life of the process.
    pub fn memory() -> Self {
        Self { storage: Storage::Memory(Arc::default()) }
    }

    /// Stores tokens in a file. It is created with the first token, readable by its owner only (mode
    /// 0600), and replaced atomically. A file that others can read is rejected.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { storage: Storage::File(path.into()) }
    }

    /// Returns the default file, `mcp-flow/logins.json` in the user's data directory, if there is a
    /// home directory.
    pub fn default_file() -> Option<PathBuf> {
        let folder = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".local").join("share"));
        let folder = folder.filter(|folder| folder.is_absolute()).or_else(home)?;
        Some(folder.join("mcp-flow").join("logins.json"))
    }

    pub(crate) fn get(&self, server: &str) -> Result<Option<StoredToken>, OAuthError> {
        match &self.storage {
            Storage::Memory(tokens) => Ok(tokens.lock().get(server).cloned()),
            Storage::File(path) => Ok(read(path)?.servers.remove(server)),
        }
    }

    pub(crate) fn put(&self, server: &str, stored: StoredToken) -> Result<(), OAuthError> {
        self.change(|servers| servers.insert(server.to_owned(), stored)).map(drop)
    }

    /// Removes the token of a server. Returns whether there was one.
    pub(crate) fn remove(&self, server: &str) -> Result<bool, OAuthError> {
        // Does not create an empty file.
        if self.get(server)?.is_none() {
            return Ok(false);
        }
        self.change(|servers| servers.remove(server)).map(|removed| removed.is_some())
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, StoredToken>) -> T,
    ) -> Result<T, OAuthError> {
        match &self.storage {
            Storage::Memory(tokens) => Ok(change(&mut tokens.lock())),
            Storage::File(path) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                make_folder(folder).map_err(|error| failed(folder, &error))?;
                let _alone = lock_file(&sibling(path, "lock"))?;
                let mut content = read(path)?;
                let outcome = change(&mut content.servers);
                write(path, folder, &content).map_err(|error| failed(path, &error))?;
                Ok(outcome)
            }
        }
    }

    /// Takes the refresh lock, so that only one process refreshes at a time: authorization servers
    /// revoke refresh tokens that are used twice.
    pub(crate) async fn lock_refresh(&self) -> Result<Option<File>, OAuthError> {
        let Storage::File(path) = &self.storage else { return Ok(None) };
        let path = sibling(path, "renewing");
        // File locks block the thread.
        let waited = tokio::task::spawn_blocking(move || lock_file(&path)).await;
        match waited {
            Ok(locked) => locked.map(Some),
            Err(_) => Ok(None),
        }
    }
}

fn read(path: &Path) -> Result<Content, OAuthError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
        Err(error) => return Err(failed(path, &error)),
    };
    check_access(path, &file)?;
    let text = io::read_to_string(&mut file).map_err(|error| failed(path, &error))?;
    // The parser's error could contain a token.
    serde_json::from_str(&text).map_err(|error| OAuthError::File {
        path: path.to_owned(),
        what: format!(
            "is not a valid token file (line {}); remove it and log in again",
            error.line()
        ),
    })
}

/// Replaces the file atomically.
fn write(path: &Path, folder: &Path, content: &Content) -> io::Result<()> {
    // Temporary files are readable by their owner only.
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

/// Path of a hidden file next to another.
fn sibling(path: &Path, ending: &str) -> PathBuf {
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
                "can be read by others (mode {mode:03o}); run `chmod 600`, and log in again if \
                 they may have read it"
            ),
        }),
    }
}

/// On other systems the permissions of the folder apply.
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

    use super::TokenStore;
    use crate::stored_token::{StoredClient, StoredToken};

    fn stored(token: &str) -> StoredToken {
        let client = StoredClient { id: "me".to_owned(), ..StoredClient::default() };
        let answer = format!(r#"{{"access_token":"{token}","token_type":"bearer"}}"#);
        StoredToken::read(client, None, Vec::new(), None, answer.as_bytes()).unwrap()
    }

    /// MCP-090: the file is private to its owner and holds one token per server.
    #[test]
    fn tokens_are_private_and_separated_by_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep").join("logins.json");
        let tokens = TokenStore::file(&path);
        assert!(tokens.get("https://a/").unwrap().is_none() && !path.exists());
        assert!(!tokens.remove("https://a/").unwrap() && !path.exists());
        tokens.put("https://a/", stored("one")).unwrap();
        tokens.put("https://b/", stored("two")).unwrap();
        tokens.put("https://a/", stored("three")).unwrap();
        for (server, token) in
            [("https://a/", Some("three")), ("https://b/", Some("two")), ("https://c/", None)]
        {
            assert_eq!(tokens.get(server).unwrap(), token.map(stored), "{server}");
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

    /// MCP-090: a file that others can read is rejected, and the content of a broken one is not shown.
    #[test]
    fn readable_and_broken_files_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logins.json");
        let tokens = TokenStore::file(&path);
        tokens.put("https://a/", stored("one")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let shown = tokens.get("https://a/").unwrap_err().to_string();
        assert!(shown.contains("chmod 600"), "{shown}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, r#"{"servers": {"https://a/": "s3cret"}}"#).unwrap();
        let shown = tokens.get("https://a/").unwrap_err().to_string();
        assert!(shown.contains("log in again") && !shown.contains("s3cret"), "{shown}");
    }

    /// Concurrent writers do not lose each other's tokens.
    #[test]
    fn concurrent_writers_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore::file(folder.path().join("logins.json"));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let tokens = &tokens;
                scope.spawn(move || {
                    tokens.put(&format!("https://{number}/"), stored("token")).unwrap();
                });
            }
        });
        for number in 0..16 {
            assert!(tokens.get(&format!("https://{number}/")).unwrap().is_some());
        }
    }
}
