//! Skills in a directory of the file system.
//!
//! Every file is opened beneath a handle of its skill's directory, so that no link and no race leads
//! out of it. Names, sizes and counts are checked before anything is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::catalog::LeftOut;
use crate::skill::{MAX_PATH_LENGTH, Skill, SkillError};
use crate::{MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, SKILL_FILE};

/// The skills of a directory, and those that are left out.
#[derive(Debug, Default)]
pub(crate) struct DirectorySkills {
    pub(crate) skills: Vec<Skill>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Reads all skills in a directory: each subdirectory with a `SKILL.md`, at any depth. Blocks for
/// as long as the file system does.
pub(crate) fn read(root: &Path) -> Result<DirectorySkills, BadDirectory> {
    let bad = |source| BadDirectory { path: root.to_owned(), source };
    let directory = Dir::open_ambient_dir(root, ambient_authority()).map_err(bad)?;
    directory.entries().map_err(bad)?;
    let found = DirectorySkills::default();
    let mut reader = DirectoryReader { root, found, names: MAX_NAMES, bytes: MAX_TOTAL_BYTES };
    if directory.symlink_metadata(SKILL_FILE).is_ok() {
        reader.leave_out("", SkillError::IsSkill);
    }
    reader.prefix(&directory, "", 0);
    Ok(reader.found)
}

/// A directory of skills that cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("the skills in {} cannot be read", path.display())]
pub struct BadDirectory {
    /// Its path.
    pub path: PathBuf,
    /// The I/O error.
    pub source: io::Error,
}

/// Reads the skills of a directory, within limits on all of them.
struct DirectoryReader<'a> {
    root: &'a Path,
    found: DirectorySkills,
    /// Names outside skills that may still be looked at.
    names: usize,
    /// Bytes that may still be held.
    bytes: u64,
}

impl DirectoryReader<'_> {
    /// Searches a directory that is not itself a skill.
    fn prefix(&mut self, directory: &Dir, path: &str, depth: usize) {
        let names = match names(directory, self.names) {
            Ok(names) => names,
            Err(Unlisted::TooMany) => return self.leave_out(path, SkillError::NoRoom),
            Err(error) => return self.leave_out(path, error.into_error(path)),
        };
        self.names -= names.len();
        for name in names {
            let Ok(name) = name else {
                self.leave_out(path, SkillError::NotUtf8("something in it".to_owned()));
                continue;
            };
            let place = join(path, &name);
            match directory.symlink_metadata(&name) {
                // A link to a file is no skill; one to a directory was probably meant as one.
                Ok(metadata) if metadata.is_symlink() && !is_file(directory, &name) => {
                    self.leave_out(&place, SkillError::Link(name));
                }
                Ok(metadata) if metadata.is_dir() => match directory.open_dir(&name) {
                    Ok(inner) if inner.symlink_metadata(SKILL_FILE).is_ok() => {
                        self.skill(&inner, &place);
                    }
                    Ok(_) if depth == MAX_PREFIX_DEPTH => {
                        self.leave_out(&place, SkillError::TooDeep(name));
                    }
                    Ok(inner) => self.prefix(&inner, &place, depth + 1),
                    Err(source) => {
                        self.leave_out(&place, SkillError::Unreadable { file: name, source });
                    }
                },
                // Files outside of skills are ignored.
                _ => {}
            }
        }
    }

    /// Adds a skill and the skills nested in it.
    fn skill(&mut self, directory: &Dir, path: &str) {
        let files = match collect(directory).and_then(|paths| read_all(directory, &paths)) {
            Ok(files) => files,
            Err(error) => return self.leave_out(path, error),
        };
        let held = files.values().map(|bytes| bytes.len() as u64).sum();
        let Some(left) = self.bytes.checked_sub(held) else {
            return self.leave_out(path, SkillError::NoRoom);
        };
        self.bytes = left;
        let nested =
            files.keys().filter_map(|file| file.strip_suffix(SKILL_FILE)?.strip_suffix('/'));
        let nested: Vec<_> = nested.map(str::to_owned).collect();
        for inner in nested {
            let within = files.iter().filter_map(|(file, bytes)| {
                let file = file.strip_prefix(&inner)?.strip_prefix('/')?;
                Some((file.to_owned(), bytes.clone()))
            });
            self.take(&format!("{path}/{inner}"), within.collect());
        }
        self.take(path, files);
    }

    fn take(&mut self, path: &str, files: BTreeMap<String, Bytes>) {
        match Skill::of_files(path, files) {
            Ok(skill) => self.found.skills.push(skill),
            Err(error) => self.leave_out(path, error),
        }
    }

    fn leave_out(&mut self, path: &str, error: SkillError) {
        let place = self.root.join(path);
        self.found.left_out.push(LeftOut { place: place.display().to_string(), error });
    }
}

/// Collects the paths of all files of a skill, in order.
fn collect(skill: &Dir) -> Result<BTreeSet<String>, SkillError> {
    let mut files = BTreeSet::new();
    let mut directories = vec![(String::new(), 0)];
    while let Some((path, depth)) = directories.pop() {
        let unreadable = |source| SkillError::Unreadable { file: path.clone(), source };
        let opened = match path.is_empty() {
            true => skill.try_clone(),
            false => skill.open_dir(&path),
        };
        let names = names(&opened.map_err(unreadable)?, MAX_FILES + 1);
        for name in names.map_err(|error| error.into_error(&path))? {
            let name = name.map_err(SkillError::NotUtf8)?;
            let place = join(&path, &name);
            let metadata = skill.symlink_metadata(&place).map_err(unreadable)?;
            if metadata.is_dir() {
                if depth == MAX_DEPTH || place.len() > MAX_PATH_LENGTH {
                    return Err(SkillError::TooDeep(place));
                }
                directories.push((place, depth + 1));
            } else if metadata.is_file() {
                files.insert(place);
            } else if metadata.is_symlink() {
                // Resolved beneath the skill's own directory.
                if !is_file(skill, &place) {
                    return Err(SkillError::Link(place));
                }
                files.insert(place);
            } else {
                return Err(SkillError::NotAFile(place));
            }
            // Empty directories count, or a skill could have any number of them.
            if files.len() + directories.len() > MAX_FILES {
                return Err(SkillError::TooManyFiles);
            }
        }
    }
    Ok(files)
}

/// Reads the files of a skill, no more than a skill may have.
fn read_all(skill: &Dir, paths: &BTreeSet<String>) -> Result<BTreeMap<String, Bytes>, SkillError> {
    let mut total = 0;
    let mut files = BTreeMap::new();
    for path in paths {
        let unreadable = |source| SkillError::Unreadable { file: path.clone(), source };
        let file = open(skill, path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(SkillError::NotAFile(path.clone()));
        }
        let too_large = |size| SkillError::FileTooLarge { file: path.clone(), size };
        if metadata.len() > MAX_FILE_BYTES {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::new();
        // It may grow while it is read.
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let size = bytes.len() as u64;
        if size > MAX_FILE_BYTES {
            return Err(too_large(size));
        }
        total += size;
        if total > MAX_BYTES {
            return Err(SkillError::TooLarge);
        }
        files.insert(path.clone(), bytes.into());
    }
    Ok(files)
}

fn open(skill: &Dir, path: &str) -> io::Result<File> {
    Ok(skill.open_with(path, &reading())?.into_std())
}

/// Options to open a file for reading. It may have become a named pipe, which must not block.
#[cfg(unix)]
fn reading() -> OpenOptions {
    use cap_std::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    options.read(true).custom_flags(flags);
    options
}

/// Options to open a file for reading.
#[cfg(windows)]
fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

/// Returns whether a path is that of a file, also by links that stay beneath the directory.
fn is_file(directory: &Dir, path: &str) -> bool {
    directory.metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// A name, or the lossy form of one that is not UTF-8.
type Name = Result<String, String>;

/// Lists the names in a directory that are not hidden, in order.
fn names(directory: &Dir, most: usize) -> Result<Vec<Name>, Unlisted> {
    let mut names = Vec::new();
    for entry in directory.entries().map_err(Unlisted::Failed)? {
        let name = entry.map_err(Unlisted::Failed)?.file_name();
        let name = name.into_string().map_err(|name| name.to_string_lossy().into_owned());
        if name.as_ref().unwrap_or_else(|shown| shown).starts_with('.') {
            continue;
        }
        if names.len() == most {
            return Err(Unlisted::TooMany);
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

/// A failure to list a directory.
enum Unlisted {
    TooMany,
    Failed(io::Error),
}

impl Unlisted {
    fn into_error(self, path: &str) -> SkillError {
        match self {
            Self::TooMany => SkillError::TooManyFiles,
            Self::Failed(source) => SkillError::Unreadable { file: path.to_owned(), source },
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

/// Names outside skills that are looked at for one directory.
const MAX_NAMES: usize = 20_000;

/// Bytes that the skills of one directory may have together. 64 MiB.
const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;

/// Directories above a skill at most.
const MAX_PREFIX_DEPTH: usize = 8;

/// Directories within a skill at most.
const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::read;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn skill(root: &Path, path: &str) {
        let name = path.rsplit('/').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: About {name}\n---\n");
        put(root, &format!("{path}/SKILL.md"), &text);
    }

    fn paths(root: &Path) -> Vec<String> {
        let skills = read(root).unwrap().skills;
        let mut paths: Vec<_> = skills.iter().map(|skill| skill.path().to_owned()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn skills_are_found_at_any_depth() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        skill(root, "one");
        skill(root, "acme/billing/refunds");
        skill(root, "outer");
        skill(root, "outer/parts/inner");
        put(root, "outer/parts/inner/x.md", "x");
        put(root, "outer/parts/broken/SKILL.md", "no frontmatter");
        put(root, ".git/hidden/SKILL.md", "x");
        put(root, "one/.DS_Store", "x");
        put(root, "README.md", "beside");
        fs::create_dir(root.join("empty")).unwrap();
        symlink("SKILL.md", root.join("one/link.md")).unwrap();
        let found = read(root).unwrap();
        assert_eq!(paths(root), ["acme/billing/refunds", "one", "outer", "outer/parts/inner"]);
        let files = |path: &str| -> Vec<&str> {
            let skill = found.skills.iter().find(|skill| skill.path() == path).unwrap();
            skill.files().iter().map(|file| file.path.as_str()).collect()
        };
        assert_eq!(files("one"), ["one/SKILL.md", "one/link.md"]);
        assert_eq!(
            files("outer"),
            [
                "outer/SKILL.md",
                "outer/parts/broken/SKILL.md",
                "outer/parts/inner/SKILL.md",
                "outer/parts/inner/x.md"
            ]
        );
        let told: Vec<_> = found.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("outer/parts/broken") && told[0].contains("begin"), "{told:?}");
    }

    /// A skill that cannot be served is reported with advice and does not affect others.
    #[test]
    fn hostile_skills_are_left_out() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        skill(outside.path(), "elsewhere");
        let root = outside.path().join("skills");
        let root = root.as_path();
        skill(root, "good");
        for name in ["link", "linked-dir", "loop", "absolute", "large", "many", "deep", "pipe"] {
            skill(root, name);
        }
        symlink("../../secret", root.join("link/x")).unwrap();
        symlink("../../elsewhere", root.join("linked-dir/x")).unwrap();
        symlink("loop-x", root.join("loop/loop-x")).unwrap();
        symlink("/etc/passwd", root.join("absolute/x")).unwrap();
        symlink("../elsewhere", root.join("linked")).unwrap();
        fs::File::create(root.join("large/x")).unwrap().set_len(1 << 30).unwrap();
        for number in 0..3000 {
            fs::write(root.join(format!("many/{number}")), "").unwrap();
        }
        fs::create_dir_all(root.join("deep").join("x/".repeat(40))).unwrap();
        let directory = fs::File::open(root.join("pipe")).unwrap();
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(&directory, "x", kind, mode, 0).unwrap();
        put(root, "yaml/SKILL.md", "---\nname: [\n---\n");
        put(root, "other/SKILL.md", "---\nname: another\ndescription: x\n---\n");
        put(root, "Wrong/SKILL.md", "---\nname: Wrong\ndescription: x\n---\n");
        put(root, "binary/SKILL.md", "x");
        fs::write(root.join("binary/SKILL.md"), b"\xff\xfe").unwrap();
        skill(root, "name");
        let odd = root.join("name").join(std::ffi::OsStr::from_bytes(b"\xff.md"));
        let is_told = fs::write(odd, "").is_ok();
        fs::create_dir_all(root.join("folder/SKILL.md")).unwrap();
        skill(root, "closed");
        put(root, "closed/x", "");
        fs::set_permissions(root.join("closed/x"), fs::Permissions::from_mode(0o000)).unwrap();
        let is_closed = fs::read(root.join("closed/x")).is_err();
        let found = read(root).unwrap();
        for (name, file, advice) in [
            ("link", "x", "replace it with a copy"),
            ("linked-dir", "x", "replace it with a copy"),
            ("loop", "loop-x", "replace it with a copy"),
            ("absolute", "x", "replace it with a copy"),
            ("linked", "linked", "replace it with a copy"),
            ("large", "x has 1073741824 bytes", "smaller"),
            ("many", "512 files", "split"),
            ("deep", "x/x", "move it up"),
            ("pipe", "x", "remove it"),
            ("yaml", "SKILL.md", "line"),
            ("other", "`another`", "rename"),
            ("Wrong", "`name`", "rename"),
            ("binary", "SKILL.md", "UTF-8"),
            ("folder", "", "add one"),
        ] {
            let place = root.join(name).display().to_string();
            let told = found.left_out.iter().find(|left_out| left_out.place == place);
            let told = told.unwrap_or_else(|| panic!("{name} is served")).to_string();
            assert!(told.contains(file) && told.contains(advice), "{name}: {told}");
        }
        let served: Vec<_> = found.skills.iter().map(super::Skill::path).collect();
        let expected = [("closed", !is_closed), ("good", true), ("name", !is_told)];
        let expected: Vec<_> =
            expected.iter().filter(|(_, is_served)| *is_served).map(|(name, _)| *name).collect();
        assert_eq!(served, expected);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = read(Path::new("/nowhere/to/be/found")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/to/be/found"), "{error}");
    }
}
