//! Skills from the client's end: listed without reading a file, verified whenever one is read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcp_flow_client::model::{ResourceBody, ResourceContents};
use mcp_flow_client::{Client, ClientBuilder, Error, ReadContents};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::digest::Digest;
use crate::entry::{BadEntry, SkillEntry};
use crate::frontmatter::Frontmatter;
use crate::{EXTENSION, MAX_BYTES, SKILLS_GET, SKILLS_LIST, uri};

/// Extends [`ClientBuilder`] by the declaration of skills.
pub trait DeclareSkills {
    /// Declares that the client supports skills.
    #[must_use]
    fn with_skills(self) -> Self;
}

impl DeclareSkills for ClientBuilder {
    fn with_skills(self) -> Self {
        self.extension(EXTENSION, json!({}))
    }
}

/// Extends [`Client`] by skills. Metadata of a server is not trusted: a verified file is
/// what the server's manifest promised, and no more trustworthy than the server.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mcp_flow_client::Client;
/// # use mcp_flow_server::Server;
/// # use mcp_flow_skills::{ServeSkills, Skill, Skills};
/// use mcp_flow_skills::ClientSkills;
///
/// # let text = "---\nname: greet\ndescription: Greets people\n---\nRead references/WORDS.md.\n";
/// # let skill = Skill::new("greet", [("SKILL.md", text), ("references/WORDS.md", "Hello\n")])?;
/// # let server = Server::builder("x", "1").skills(Skills::new().skill(skill)).build()?;
/// # let client = Client::builder().connect(mcp_flow_stdio::client::in_process(&server)).await?;
/// let entries = client.skills().await?;
/// let skill = client.load_skill(entries[0].clone()).await?;
/// assert!(skill.text().contains("references/WORDS.md"));
/// assert_eq!(skill.read("references/WORDS.md").await?, b"Hello\n");
/// # Ok(())
/// # }
/// ```
pub trait ClientSkills {
    /// Lists the skills the server enumerates, and reads no file of them. Bad entries are left out
    /// with a warning in the log. There may be skills that are not listed.
    fn skills(&self) -> impl Future<Output = Result<Vec<SkillEntry>, SkillsError>> + Send;

    /// Fetches the entry of one skill, listed or not, by the URI of its `SKILL.md`.
    fn skill(&self, uri: &str) -> impl Future<Output = Result<SkillEntry, SkillsError>> + Send;

    /// Loads a skill: reads its `SKILL.md`, and no other file, and verifies it against the entry.
    fn load_skill(
        &self,
        entry: SkillEntry,
    ) -> impl Future<Output = Result<LoadedSkill, SkillsError>> + Send;
}

impl ClientSkills for Client {
    async fn skills(&self) -> Result<Vec<SkillEntry>, SkillsError> {
        check_offered(self).await?;
        let values = self.entries(SKILLS_LIST, "skills").all().await?;
        let entries = values.iter().filter_map(|value| {
            let entry = read_entry(value);
            if let Err(error) = &entry {
                let uri = value["uri"].as_str().unwrap_or_default();
                tracing::warn!(uri, "a skill of the server is ignored: {error}");
            }
            entry.ok()
        });
        Ok(entries.collect())
    }

    async fn skill(&self, uri: &str) -> Result<SkillEntry, SkillsError> {
        check_offered(self).await?;
        let result = self.request(SKILLS_GET, json!({"uri": uri})).await?;
        let entry = read_entry(&result["skill"])?;
        if entry.uri == uri { Ok(entry) } else { Err(BadEntry::Uri.into()) }
    }

    async fn load_skill(&self, entry: SkillEntry) -> Result<LoadedSkill, SkillsError> {
        entry.check()?;
        let bytes = read_verified(self, &entry, &entry.uri).await?;
        let mismatch = |mismatch| SkillsError::Unverified { uri: entry.uri.clone(), mismatch };
        let text = String::from_utf8(bytes).map_err(|_| mismatch(Mismatch::NotText))?;
        let frontmatter = Frontmatter::parse(&text)
            .map_err(|error| mismatch(Mismatch::Frontmatter(error.to_string())))?;
        if let Some(field) = frontmatter.difference(&entry.frontmatter) {
            let difference = format!("the field `{field}` differs");
            return Err(mismatch(Mismatch::Frontmatter(difference)));
        }
        Ok(LoadedSkill { client: self.clone(), entry, text, files: Arc::default() })
    }
}

/// A skill whose `SKILL.md` was read and verified. Its other files are read when they are needed.
#[derive(Clone)]
pub struct LoadedSkill {
    client: Client,
    entry: SkillEntry,
    text: String,
    /// Files read before, by their digests.
    files: Arc<Mutex<HashMap<Digest, Arc<[u8]>>>>,
}

impl LoadedSkill {
    /// Returns the entry it was verified against.
    pub fn entry(&self) -> &SkillEntry {
        &self.entry
    }

    /// Returns the text of its `SKILL.md`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads and verifies a file of the skill, by its URI or by its path below the skill's
    /// directory. A file that the manifest does not list is refused. A file that was verified before is
    /// not read again: its digest identifies it.
    pub async fn read(&self, file: &str) -> Result<Vec<u8>, SkillsError> {
        let uri = match file.contains("://") {
            true => Cow::Borrowed(file),
            false => Cow::Owned(format!("{}/{}", self.entry.root(), uri::encode(file))),
        };
        // The manifest bounds the bytes of all files.
        let digest = self.entry.file(&uri).map(|file| file.digest);
        let known = digest.and_then(|digest| self.files.lock().ok()?.get(&digest).cloned());
        if let Some(known) = known {
            return Ok(known.to_vec());
        }
        let bytes = read_verified(&self.client, &self.entry, &uri).await?;
        if let (Some(digest), Ok(mut files)) = (digest, self.files.lock()) {
            files.insert(digest, bytes.as_slice().into());
        }
        Ok(bytes)
    }
}

impl std::fmt::Debug for LoadedSkill {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadedSkill").field("uri", &self.entry.uri).finish_non_exhaustive()
    }
}

/// Refuses to ask a server that has not declared the extension.
async fn check_offered(client: &Client) -> Result<(), SkillsError> {
    let server = client.server().await?;
    match server.capabilities.extensions.contains_key(EXTENSION) {
        true => Ok(()),
        false => Err(SkillsError::NotOffered),
    }
}

fn read_entry(value: &Value) -> Result<SkillEntry, BadEntry> {
    let entry =
        SkillEntry::deserialize(value).map_err(|error| BadEntry::Malformed(error.to_string()))?;
    entry.check()?;
    Ok(entry)
}

/// Reads a file of a skill, and verifies size and digest by its manifest. Of a skill without a
/// manifest only the place is known.
async fn read_verified(
    client: &Client,
    entry: &SkillEntry,
    uri: &str,
) -> Result<Vec<u8>, SkillsError> {
    let listed = entry.file(uri);
    let is_outside = uri::path_within(uri, entry.root()).is_none();
    if is_outside || entry.files.is_some() && listed.is_none() {
        return Err(SkillsError::Unlisted(uri.to_owned()));
    }
    let unverified = |mismatch| SkillsError::Unverified { uri: uri.to_owned(), mismatch };
    // Verified by its digest, a file needs no time limit; another copy must not stand in for it.
    let mut contents = client.read_resource(uri).fresh().await?.contents.into_iter();
    let (Some(ReadContents::Known(ResourceContents { body, .. })), None) =
        (contents.next(), contents.next())
    else {
        return Err(unverified(Mismatch::Contents));
    };
    let bytes = match body {
        ResourceBody::Text(text) => text.into_bytes(),
        ResourceBody::Blob(blob) => blob.0,
        ResourceBody::Stream(_) => return Err(unverified(Mismatch::Contents)),
    };
    let size = bytes.len() as u64;
    match listed {
        Some(file) if file.size != size => {
            Err(unverified(Mismatch::Size { promised: file.size, found: size }))
        }
        Some(file) => {
            let found = Digest::of(&bytes);
            let promised = file.digest;
            match found == promised {
                true => Ok(bytes),
                false => Err(unverified(Mismatch::Digest { promised, found })),
            }
        }
        None if size > MAX_BYTES => {
            Err(unverified(Mismatch::Size { promised: MAX_BYTES, found: size }))
        }
        None => Ok(bytes),
    }
}

/// A failure to list or read skills.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillsError {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] Error),
    /// The server does not declare the extension.
    #[error("the server does not serve skills")]
    NotOffered,
    /// The server sent an entry that cannot be used.
    #[error("the skill entry is invalid: {0}")]
    BadEntry(#[from] BadEntry),
    /// The file is not one the manifest lists. Fetch the entry again if the skill may have changed.
    #[error("{0} is not in the manifest of the skill and was not read")]
    Unlisted(String),
    /// The file is not what the entry promised. Fetch the entry again if the skill may have changed.
    #[error("{uri} does not match the server's listing and was rejected: {mismatch}")]
    Unverified {
        /// The URI of the file.
        uri: String,
        /// The difference found.
        mismatch: Mismatch,
    },
}

/// A difference between a file and its entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// Its digest differs.
    #[error("its digest is {found}, not {promised}")]
    Digest {
        /// The digest of the manifest.
        promised: Digest,
        /// The digest of what was read.
        found: Digest,
    },
    /// Its size differs.
    #[error("it has {found} bytes, not {promised}")]
    Size {
        /// The size by the manifest.
        promised: u64,
        /// The size of what was read.
        found: u64,
    },
    /// Its frontmatter differs.
    #[error("its frontmatter differs: {0}")]
    Frontmatter(String),
    /// It is a `SKILL.md` and not a text.
    #[error("it is not UTF-8")]
    NotText,
    /// The server did not return exactly one file.
    #[error("the server did not return exactly one file")]
    Contents,
}
