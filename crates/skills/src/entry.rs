//! Skill entries, as `skills/list` and `skills/get` have them.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::frontmatter::{BadFrontmatter, Frontmatter};
use crate::{MAX_BYTES, MAX_FILES, uri};

/// The entry of a skill: where it is, its frontmatter, and the manifest of its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkillEntry {
    /// The URI of its `SKILL.md`, which identifies it within its server.
    pub uri: String,
    /// The frontmatter of its `SKILL.md`, every field as JSON.
    pub frontmatter: Frontmatter,
    /// The manifest: every file with digest and size. `None` for content that is generated for each
    /// read, which is written `"dynamic"`; it cannot be verified.
    #[serde(rename = "resources", with = "manifest")]
    pub files: Option<Vec<ManifestFile>>,
}

/// One file of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its URI.
    pub uri: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The number of its bytes.
    pub size: u64,
}

impl SkillEntry {
    /// Returns the name of the skill: a label, not an identifier.
    pub fn name(&self) -> &str {
        self.frontmatter.name()
    }

    /// Returns the description of the skill, for a model to choose by.
    pub fn description(&self) -> &str {
        self.frontmatter.description()
    }

    /// Returns the URI of its directory, without a slash at the end.
    pub fn root(&self) -> &str {
        uri::root_of(&self.uri).unwrap_or(&self.uri)
    }

    /// Returns the manifest's record of a file.
    pub fn file(&self, uri: &str) -> Option<&ManifestFile> {
        self.files.as_deref()?.iter().find(|file| file.uri == uri)
    }

    /// Checks what a server sent: that the URI names a skill of this name, that the manifest is
    /// complete, within the skill's directory and within the limits of the extension.
    pub fn check(&self) -> Result<(), BadEntry> {
        let root = uri::root_of(&self.uri).ok_or(BadEntry::Uri)?;
        self.frontmatter.check()?;
        if root.rsplit('/').next() != Some(self.name()) {
            return Err(BadEntry::Name(self.name().to_owned()));
        }
        let Some(files) = &self.files else { return Ok(()) };
        if files.len() > MAX_FILES {
            return Err(BadEntry::TooManyFiles(files.len()));
        }
        let mut seen = HashSet::new();
        for file in files {
            if uri::path_within(&file.uri, root).is_none() {
                return Err(BadEntry::Outside(file.uri.clone()));
            }
            if !seen.insert(&file.uri) {
                return Err(BadEntry::Twice(file.uri.clone()));
            }
        }
        if !seen.contains(&self.uri) {
            return Err(BadEntry::Incomplete);
        }
        let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
        if bytes > MAX_BYTES { Err(BadEntry::TooLarge(bytes)) } else { Ok(()) }
    }
}

/// A fault of a skill entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadEntry {
    /// Members of an entry are missing or invalid.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// The URI is not that of a `SKILL.md`.
    #[error("its URI does not name a SKILL.md in a directory")]
    Uri,
    /// The directory has another name than the skill.
    #[error("its directory is not named `{0}`, as its frontmatter says")]
    Name(String),
    /// The frontmatter lacks something.
    #[error(transparent)]
    Frontmatter(#[from] BadFrontmatter),
    /// The manifest names a file elsewhere.
    #[error("its manifest has {0}, which is not in its directory")]
    Outside(String),
    /// The manifest names a file twice.
    #[error("its manifest has {0} twice")]
    Twice(String),
    /// The manifest lacks the `SKILL.md`.
    #[error("its manifest lacks its SKILL.md")]
    Incomplete,
    /// There are more files than the extension allows.
    #[error("it has {0} files; the limit is {MAX_FILES}")]
    TooManyFiles(usize),
    /// There are more bytes than the extension allows.
    #[error("its files have {0} bytes; the limit is {MAX_BYTES}")]
    TooLarge(u64),
}

/// A list of files, or the text `dynamic`.
mod manifest {
    use std::fmt;

    use serde::de::value::SeqAccessDeserializer;
    use serde::de::{self, SeqAccess, Unexpected, Visitor};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ManifestFile;

    pub(super) fn serialize<S: Serializer>(
        files: &Option<Vec<ManifestFile>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match files {
            Some(files) => files.serialize(serializer),
            None => serializer.serialize_str(DYNAMIC),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<ManifestFile>>, D::Error> {
        deserializer.deserialize_any(Manifest)
    }

    /// Reads either form. An untagged enum would not say which member of a file is wrong.
    struct Manifest;

    impl<'de> Visitor<'de> for Manifest {
        type Value = Option<Vec<ManifestFile>>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "`resources` to be a list of files or {DYNAMIC:?}")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            match text {
                DYNAMIC => Ok(None),
                _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
            }
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list)).map(Some)
        }
    }

    const DYNAMIC: &str = "dynamic";
}

#[cfg(test)]
mod tests {
    use super::SkillEntry;
    use serde_json::{Value, json};

    fn entry() -> Value {
        let file = |uri: &str| json!({"uri": uri, "digest": format!("sha256:{}", "0".repeat(64)), "size": 5});
        json!({
            "uri": "skill://acme/refunds/SKILL.md",
            "frontmatter": {"name": "refunds", "description": "Refunds", "x": [1]},
            "resources": [file("skill://acme/refunds/SKILL.md"), file("skill://acme/refunds/a/b")],
        })
    }

    #[test]
    fn entries_are_read_and_written_alike() {
        let mut generated = entry();
        generated["resources"] = "dynamic".into();
        for value in [entry(), generated] {
            let read: SkillEntry = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(read.check(), Ok(()));
            assert_eq!(serde_json::to_value(read).unwrap(), value);
        }
    }

    /// Manifests of other servers are hostile: no file of one is outside its skill.
    #[test]
    fn bad_entries_are_refused() {
        for (pointer, value, told) in [
            ("/uri", json!("skill://acme/refunds/README.md"), "SKILL.md"),
            ("/uri", json!("skill://acme/other/SKILL.md"), "refunds"),
            ("/uri", json!("skill://x/../refunds/SKILL.md"), "URI"),
            ("/frontmatter/name", json!("../refunds"), "lowercase"),
            ("/frontmatter/name", json!(7), "name"),
            ("/frontmatter/description", json!(""), "description"),
            ("/resources", json!([]), "lacks"),
            ("/resources", json!("static"), "`resources`"),
            ("/resources", Value::Null, "`resources`"),
            ("/resources/1", json!({"uri": "skill://acme/refunds/a"}), "`digest`"),
            ("/resources/1/uri", json!("skill://acme/other/b"), "not in its directory"),
            ("/resources/1/uri", json!("skill://acme/refunds/../b"), "not in its directory"),
            ("/resources/1/uri", json!("skill://acme/refunds/%2e%2e/b"), "not in its directory"),
            ("/resources/1/uri", json!("skill://acme/refunds/SKILL.md"), "twice"),
            ("/resources/1/size", json!(17 * 1024 * 1024), "limit"),
            ("/resources/1/size", json!(u64::MAX), "limit"),
            ("/resources/1/size", json!(-1), "integer `-1`"),
            ("/resources/1/digest", json!("md5:0"), "sha256"),
        ] {
            let mut bad = entry();
            *bad.pointer_mut(pointer).unwrap() = value.clone();
            let error = match serde_json::from_value::<SkillEntry>(bad) {
                Ok(read) => read.check().unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            assert!(error.contains(told), "{pointer} {value}: {error}");
        }
        let mut many = entry();
        let files: Vec<_> = (0..513).map(|_| many["resources"][0].clone()).collect();
        many["resources"] = files.into();
        let many: SkillEntry = serde_json::from_value(many).unwrap();
        assert!(many.check().unwrap_err().to_string().contains("513"));
    }
}
