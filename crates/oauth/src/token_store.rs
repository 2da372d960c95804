//! Storage of tokens between runs.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcp_flow_seal::{KeyRing, Seal, SealRandom};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::error::OAuthError;
use crate::stored_token::StoredToken;

/// Tokens of all servers, by server URL. Clones share the storage.
#[derive(Clone, Debug)]
pub struct TokenStore {
    storage: Storage,
    /// User whose tokens these are, where several share the storage.
    user: Option<Arc<str>>,
}

#[derive(Clone, Debug)]
enum Storage {
    Memory(Arc<Mutex<BTreeMap<String, StoredToken>>>),
    File(TokenFile),
}

#[derive(Clone, Debug)]
struct TokenFile {
    path: PathBuf,
    /// Keys that encrypt it.
    keys: Option<KeyRing>,
}

#[derive(Default, Serialize, Deserialize)]
struct Content {
    servers: BTreeMap<String, StoredToken>,
}

impl TokenStore {
    /// Stores tokens in memory, for the life of the process.
    pub fn memory() -> Self {
        Self { storage: Storage::Memory(Arc::default()), user: None }
    }

    /// Stores tokens in a file. It is created with the first token, readable by its owner only (mode
    /// 0600), and replaced atomically. A file that others can read is rejected.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::in_file(path.into(), None)
    }

    /// Stores tokens in a file as [`file`](Self::file) does, encrypted with these keys.
    pub fn sealed_file(path: impl Into<PathBuf>, keys: KeyRing) -> Self {
        Self::in_file(path.into(), Some(keys))
    }

    fn in_file(path: PathBuf, keys: Option<KeyRing>) -> Self {
        Self { storage: Storage::File(TokenFile { path, keys }), user: None }
    }

    /// The tokens of one user in the same storage.
    #[must_use]
    pub fn of_user(&self, name: &str) -> Self {
        Self { storage: self.storage.clone(), user: Some(name.into()) }
    }

    /// Returns the default file, `mcp-flow/logins.json` in the user's data directory, if there is a
    /// home directory.
    pub fn default_file() -> Option<PathBuf> {
        let folder = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".local").join("share"));
        let folder = folder.filter(|folder| folder.is_absolute()).or_else(home)?;
        Some(folder.join("mcp-flow").join("logins.json"))
    }

    /// Key of a server's token. No URL contains a space.
    fn key(&self, server: &str) -> String {
        self.user.as_ref().map_or_else(|| server.to_owned(), |user| format!("{server} {user}"))
    }

    pub(crate) fn get(&self, server: &str) -> Result<Option<StoredToken>, OAuthError> {
        let key = self.key(server);
        match &self.storage {
            Storage::Memory(tokens) => Ok(tokens.lock().get(&key).cloned()),
            Storage::File(file) => Ok(file.read()?.servers.remove(&key)),
        }
    }

    pub(crate) fn put(&self, server: &str, stored: StoredToken) -> Result<(), OAuthError> {
        self.change(|servers| servers.insert(self.key(server), stored)).map(drop)
    }

    /// Removes the token of a server. Returns whether there was one.
    pub(crate) fn remove(&self, server: &str) -> Result<bool, OAuthError> {
        // Does not create an empty file.
        if self.get(server)?.is_none() {
            return Ok(false);
        }
        self.change(|servers| servers.remove(&self.key(server))).map(|removed| removed.is_some())
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, StoredToken>) -> T,
    ) -> Result<T, OAuthError> {
        match &self.storage {
            Storage::Memory(tokens) => Ok(change(&mut tokens.lock())),
            Storage::File(file) => {
                let path = &file.path;
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = folder.unwrap_or(Path::new("."));
                make_folder(folder).map_err(|error| failed(folder, &error))?;
                let _alone = lock_file(&sibling(path, "lock"))?;
                let mut content = file.read()?;
                let outcome = change(&mut content.servers);
                file.write(folder, &content).map_err(|error| failed(path, &error))?;
                Ok(outcome)
            }
        }
    }

    /// Takes the refresh lock, so that only one process refreshes at a time: authorization servers
    /// revoke refresh tokens that are used twice.
    pub(crate) async fn lock_refresh(&self) -> Result<Option<File>, OAuthError> {
        let Storage::File(file) = &self.storage else { return Ok(None) };
        let path = sibling(&file.path, "renewing");
        // File locks block the thread.
        let waited = tokio::task::spawn_blocking(move || lock_file(&path)).await;
        match waited {
            Ok(locked) => locked.map(Some),
            Err(_) => Ok(None),
        }
    }
}

impl TokenFile {
    fn read(&self) -> Result<Content, OAuthError> {
        let path = &self.path;
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Content::default()),
            Err(error) => return Err(failed(path, &error)),
        };
        check_access(path, &file)?;
        let text = io::read_to_string(&mut file).map_err(|error| failed(path, &error))?;
        let unusable = |what: String| OAuthError::File { path: path.clone(), what };
        let text = match &self.keys {
            None => text.into_bytes(),
            Some(keys) => keys.open(SEAL, 0, &text).map_err(|_| {
                let what = "cannot be decrypted with the keys of this store; restore them, or remove \
                            the file and log in again";
                unusable(what.to_owned())
            })?,
        };
        // The parser's error could contain a token.
        serde_json::from_slice(&text).map_err(|error| {
            let line = error.line();
            unusable(format!("is not a valid token file (line {line}); remove it and log in again"))
        })
    }

    /// Replaces the file atomically.
    fn write(&self, folder: &Path, content: &Content) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(content)?;
        if let Some(keys) = &self.keys {
            let mut random = SealRandom::default();
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            text = keys.seal(SEAL, None, &text, random).into();
        }
        // Temporary files are readable by their owner only.
        let mut draft = NamedTempFile::new_in(folder)?;
        draft.write_all(&text)?;
        draft.flush()?;
        draft.as_file().sync_all()?;
        draft.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

const SEAL: Seal<'static> = Seal { purpose: "oauth-tokens", bound_to: b"" };

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

/// Not checked on Windows: a file is as private as its directory, and those of a user's profile are.
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

    use mcp_flow_seal::{Key, KeyRing};

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

    /// Tokens of several users are apart, and nobody without the keys can read them.
    #[test]
    fn tokens_of_users_are_separated_and_sealed() {
        let keys = |byte| KeyRing::new(Key::from_bytes([byte; Key::LENGTH]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("accounts");
        let tokens = TokenStore::sealed_file(&path, keys(1));
        let (ada, bob) = (tokens.of_user("ada"), tokens.of_user("bob"));
        ada.put("https://a/", stored("s3cret")).unwrap();
        assert!(!fs::read_to_string(&path).unwrap().contains("s3cret"));
        assert_eq!(ada.get("https://a/").unwrap(), Some(stored("s3cret")));
        for others in [&bob, &tokens, &tokens.of_user("")] {
            assert_eq!(others.get("https://a/").unwrap(), None);
        }
        assert!(!bob.remove("https://a/").unwrap());
        for wrong in [TokenStore::sealed_file(&path, keys(2)), TokenStore::file(&path)] {
            let shown = wrong.of_user("ada").get("https://a/").unwrap_err().to_string();
            assert!(shown.contains("log in again"), "{shown}");
        }
        assert!(ada.remove("https://a/").unwrap());
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
