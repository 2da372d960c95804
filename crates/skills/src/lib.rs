//! The skills extension of MCP (SEP-2640): Agent Skills as resources.
//!
//! A [`Skill`] is a directory of files with a `SKILL.md` at its root. [`Skills`] collects them from
//! memory, from directories and from a workflow library; [`ServeSkills`] adds them to a server, as
//! `skill://` resources and by the methods `skills/list`, `skills/get` and
//! `resources/directory/read`. [`ClientSkills`] is the other end: it lists skills without reading
//! any file, and verifies digest, size and frontmatter of every file it reads.
//!
//! A skill is served completely or not at all. One that cannot be served is left out with a
//! [`LeftOut`] that names the file and says what to do; the others are not affected.

mod catalog;
mod client;
mod digest;
mod directory;
mod entry;
mod frontmatter;
mod serve;
mod skill;
mod uri;
mod watch;
mod workflows;

pub use catalog::{LeftOut, Skills};
pub use client::{ClientSkills, DeclareSkills, LoadedSkill, Mismatch, SkillsError};
pub use digest::{BadDigest, Digest};
pub use directory::BadDirectory;
pub use entry::{BadEntry, ManifestFile, SkillEntry};
pub use frontmatter::{BadFrontmatter, Frontmatter};
pub use serve::ServeSkills;
pub use skill::{Skill, SkillError, SkillFile};
pub use workflows::skill_of;

/// The identifier of the extension in the capabilities of a server.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// Lists the skills a server enumerates.
pub const SKILLS_LIST: &str = "skills/list";
/// Returns the entry of one skill.
pub const SKILLS_GET: &str = "skills/get";
/// Lists the direct children of a directory.
pub const DIRECTORY_READ: &str = "resources/directory/read";

/// The file every skill has at its root.
pub const SKILL_FILE: &str = "SKILL.md";

/// Files of one skill at most, as the extension has it.
pub const MAX_FILES: usize = 512;
/// Bytes of all files of one skill at most, as the extension has it. 16 MiB.
pub const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Bytes of one file at most, so that it fits into one message. 8 MiB.
pub const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
