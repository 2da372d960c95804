//! A skill: a directory of files, held in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;

use crate::digest::Digest;
use crate::entry::{ManifestFile, SkillEntry};
use crate::frontmatter::{BadFrontmatter, Frontmatter};
use crate::{MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, SKILL_FILE, uri};

/// A skill with all of its files, which passed every check.
///
/// ```
/// use mcp_flow_skills::Skill;
///
/// let text = "---\nname: refunds\ndescription: Handles refunds\n---\nRead references/POLICY.md.\n";
/// let skill = Skill::new(
///     "acme/refunds",
///     [("SKILL.md", text), ("references/POLICY.md", "Within 30 days.\n")],
/// )
/// .unwrap();
/// assert_eq!(skill.entry().uri, "skill://acme/refunds/SKILL.md");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    path: String,
    entry: SkillEntry,
    files: Vec<SkillFile>,
}

/// One file of a skill.
#[derive(Clone, Debug, PartialEq)]
pub struct SkillFile {
    /// The path below all skills, such as `acme/refunds/SKILL.md`.
    pub path: String,
    /// The URI it is read by.
    pub uri: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Skill {
    /// Makes a skill of files in memory, each with its path below the skill's directory. The last
    /// segment of `path` is the skill's name; those before it are a prefix of the server's choice.
    pub fn new<P: Into<String>, B: Into<Bytes>>(
        path: &str,
        files: impl IntoIterator<Item = (P, B)>,
    ) -> Result<Self, SkillError> {
        let mut sorted = BTreeMap::new();
        for (file, bytes) in files {
            let file: String = file.into();
            if !is_path(&file) {
                return Err(SkillError::Path(file));
            }
            if sorted.insert(file.clone(), bytes.into()).is_some() {
                return Err(SkillError::Path(file));
            }
        }
        Self::of_files(path, sorted)
    }

    /// Creates a skill from files with valid, distinct paths.
    pub(crate) fn of_files(path: &str, files: BTreeMap<String, Bytes>) -> Result<Self, SkillError> {
        if !is_path(path) {
            return Err(SkillError::Path(path.to_owned()));
        }
        check_sizes(&files)?;
        let text = files.get(SKILL_FILE).ok_or(SkillError::NoSkillFile)?;
        let text = std::str::from_utf8(text).map_err(|_| SkillError::NotText)?;
        let frontmatter = Frontmatter::parse(text)?;
        let directory = path.rsplit('/').next().unwrap_or(path);
        if frontmatter.name() != directory {
            let (name, directory) = (frontmatter.name().to_owned(), directory.to_owned());
            return Err(SkillError::NameDiffers { name, directory });
        }
        let files: Vec<_> = files
            .into_iter()
            .map(|(file, bytes)| {
                let path = format!("{path}/{file}");
                SkillFile { uri: uri::of_path(&path), path, digest: Digest::of(&bytes), bytes }
            })
            .collect();
        let listed = files.iter().map(|file| ManifestFile {
            uri: file.uri.clone(),
            digest: file.digest,
            size: file.bytes.len() as u64,
        });
        let entry = SkillEntry {
            uri: uri::of_path(&format!("{path}/{SKILL_FILE}")),
            frontmatter,
            files: Some(listed.collect()),
        };
        Ok(Self { path: path.to_owned(), entry, files })
    }

    /// Returns the path of its directory below all skills.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns its entry.
    pub fn entry(&self) -> &SkillEntry {
        &self.entry
    }

    /// Returns its files, in the order of their paths.
    pub fn files(&self) -> &[SkillFile] {
        &self.files
    }
}

impl SkillFile {
    /// Returns the last segment of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Guesses the type of its content by its name.
    pub fn mime_type(&self) -> Option<&'static str> {
        mime_guess::from_path(self.name()).first_raw()
    }
}

/// Returns whether a path only goes down, to nothing that could be understood in two ways.
fn is_path(path: &str) -> bool {
    path.len() <= MAX_PATH_LENGTH
        && path.split('/').all(|segment| uri::is_segment(segment.as_bytes()))
}

fn check_sizes(files: &BTreeMap<String, Bytes>) -> Result<(), SkillError> {
    if files.len() > MAX_FILES {
        return Err(SkillError::TooManyFiles);
    }
    let mut total = 0;
    let names: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    for (file, bytes) in files {
        let size = bytes.len() as u64;
        if size > MAX_FILE_BYTES {
            return Err(SkillError::FileTooLarge { file: file.clone(), size });
        }
        total += size;
        let mut parents = file.match_indices('/').map(|(place, _)| &file[..place]);
        if parents.any(|parent| names.contains(parent)) {
            return Err(SkillError::Path(file.clone()));
        }
    }
    if total > MAX_BYTES { Err(SkillError::TooLarge) } else { Ok(()) }
}

/// A reason not to serve a skill, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// A path is invalid or duplicated.
    #[error("`{0}` cannot be the path of a skill or of one of its files; rename it")]
    Path(String),
    /// A name is not UTF-8.
    #[error("the name of {0} is not UTF-8; rename it")]
    NotUtf8(String),
    /// There is no `SKILL.md`.
    #[error("it has no SKILL.md; add one")]
    NoSkillFile,
    /// The `SKILL.md` is not a text.
    #[error("its SKILL.md is not UTF-8; save it as UTF-8")]
    NotText,
    /// The frontmatter is invalid.
    #[error("SKILL.md: {0}")]
    Frontmatter(#[from] BadFrontmatter),
    /// The name is not that of the directory.
    #[error("it is named `{name}`, but its directory `{directory}`; rename one of them")]
    NameDiffers {
        /// The name by the frontmatter.
        name: String,
        /// The name of the directory.
        directory: String,
    },
    /// There are too many files.
    #[error("it has more than {MAX_FILES} files; split it, or move some of them elsewhere")]
    TooManyFiles,
    /// One file is too large.
    #[error(
        "its file {file} has {size} bytes, and at most {MAX_FILE_BYTES} are served; make it \
         smaller, or move it elsewhere"
    )]
    FileTooLarge {
        /// Its path.
        file: String,
        /// Its size.
        size: u64,
    },
    /// All files together are too large.
    #[error("its files have more than {MAX_BYTES} bytes; split it, or move some of them elsewhere")]
    TooLarge,
    /// Directories are nested too deeply.
    #[error("its directory {0} is nested too deeply; move it up")]
    TooDeep(String),
    /// A link leads out of the skill, or to a directory.
    #[error("{0} is a link that does not lead to a file of the same skill; replace it with a copy")]
    Link(String),
    /// Something is neither a file nor a directory.
    #[error("{0} is neither a file nor a directory; remove it")]
    NotAFile(String),
    /// The file system fails.
    #[error("{file} cannot be read: {source}; check its permissions")]
    Unreadable {
        /// Its path.
        file: String,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The directory is itself a skill; its parent is expected.
    #[error("it is itself a skill, not a directory of skills; pass its parent directory")]
    IsSkill,
    /// Another skill is served there.
    #[error("it collides with the skill {0}; rename one of them")]
    Taken(String),
    /// The limit on skills or their bytes is reached.
    #[error("the limit on skills or on their total size is reached; serve fewer")]
    NoRoom,
}

/// Bytes of a path at most.
pub(crate) const MAX_PATH_LENGTH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::Skill;
    use crate::Digest;

    const TEXT: &str = "---\nname: a\ndescription: b\n---\n";

    #[test]
    fn skills_are_described_byte_for_byte() {
        let files = [("x/y z.bin", &b"\xff\0"[..]), ("SKILL.md", TEXT.as_bytes())];
        let skill = Skill::new("p/a", files).unwrap();
        let entry = skill.entry();
        assert_eq!((entry.uri.as_str(), entry.root()), ("skill://p/a/SKILL.md", "skill://p/a"));
        assert_eq!(entry.check(), Ok(()));
        let file = entry.file("skill://p/a/x/y%20z.bin").unwrap();
        assert_eq!((file.size, file.digest), (2, Digest::of(b"\xff\0")));
        let types: Vec<_> = skill.files().iter().map(super::SkillFile::mime_type).collect();
        assert_eq!(types, [Some("text/markdown"), Some("application/octet-stream")]);
    }

    #[test]
    fn bad_skills_are_explained() {
        let large = "x".repeat(8 * 1024 * 1024 + 1);
        let many: Vec<_> = (0..512).map(|number| (format!("{number}"), "")).collect();
        let half = "x".repeat(8 * 1024 * 1024);
        let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        let skill_file = || file("SKILL.md", TEXT);
        let several = many.iter().map(|(path, text)| file(path, text)).chain([skill_file()]);
        for (path, files, told) in [
            ("a", vec![], "add one"),
            ("b", vec![skill_file()], "named `a`"),
            ("", vec![skill_file()], "rename"),
            ("/a", vec![skill_file()], "rename"),
            ("../a", vec![skill_file()], "rename"),
            ("x\\a", vec![skill_file()], "rename"),
            ("a", vec![file("SKILL.md", "# A")], "frontmatter"),
            ("a", vec![skill_file(), file("../x", "")], "../x"),
            ("a", vec![skill_file(), file("x/./y", "")], "x/./y"),
            ("a", vec![skill_file(), file("/etc/passwd", "")], "/etc/passwd"),
            ("a", vec![skill_file(), file("x\0", "")], "rename"),
            ("a", vec![skill_file(), file("x", ""), file("x/y", "")], "x/y"),
            ("a", vec![skill_file(), skill_file()], "SKILL.md"),
            ("a", several.collect(), "512"),
            ("a", vec![skill_file(), file("x", &large)], "smaller"),
            ("a", vec![skill_file(), file("x", &half), file("y", &half)], "split"),
        ] {
            let error = Skill::new(path, files).unwrap_err().to_string();
            assert!(error.contains(told), "{path}: {error}");
        }
        let error = Skill::new("a", [("SKILL.md", &b"\xff"[..])]).unwrap_err();
        assert!(error.to_string().contains("UTF-8"));
    }
}
