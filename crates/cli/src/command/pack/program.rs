//! Programs of a server, for one or several operating systems.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::project::{Kind, Project};
use super::usage;

/// A program and the system it runs on.
#[derive(Debug)]
pub(super) struct ServerProgram {
    pub(super) path: PathBuf,
    pub(super) platform: Platform,
    name: String,
}

impl ServerProgram {
    /// Path of the program in a bundle that holds all of these.
    pub(super) fn path_in_bundle(&self, all: &[Self]) -> String {
        let suffix = if self.platform == Platform::Windows { ".exe" } else { "" };
        match all {
            [_] => format!("server/{}{suffix}", self.name),
            _ => format!("server/{}/{}{suffix}", self.platform.name(), self.name),
        }
    }
}

/// Operating system, as bundles name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    Linux,
    Mac,
    Windows,
}

impl Platform {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Mac => "darwin",
            Self::Windows => "win32",
        }
    }

    /// Returns whether this process runs on it.
    pub(super) fn is_local(self) -> bool {
        let local = match std::env::consts::OS {
            "macos" => "darwin",
            "windows" => "win32",
            other => other,
        };
        self.name() == local
    }

    /// Recognizes the system of a program by its first bytes.
    fn of(start: [u8; 4]) -> Option<Self> {
        match start {
            [0x7f, b'E', b'L', b'F'] => Some(Self::Linux),
            [b'M', b'Z', ..] => Some(Self::Windows),
            // 64-bit, and a file for several processors.
            [0xcf, 0xfa, 0xed, 0xfe] | [0xca, 0xfe, 0xba, 0xbe] => Some(Self::Mac),
            _ => None,
        }
    }
}

/// Reads the programs of a project: those that are named, or the one that it has.
pub(super) fn read(project: &Project, named: &[PathBuf]) -> anyhow::Result<Vec<ServerProgram>> {
    let default = [default_program(project)];
    let paths = match (named, &default) {
        ([], [Ok(path)]) => std::slice::from_ref(path),
        ([], [Err(problem)]) => return Err(usage(problem.clone())),
        _ => named,
    };
    let mut programs: Vec<ServerProgram> = Vec::new();
    for path in paths {
        let program = open(path, project)?;
        if let Some(other) = programs.iter().find(|other| other.platform == program.platform) {
            return Err(usage(format!(
                "{} and {} are both for {}; a bundle has one program for each system",
                other.path.display(),
                path.display(),
                program.platform.name()
            )));
        }
        programs.push(program);
    }
    Ok(programs)
}

/// The program that a project has without being told: its release build, or this program.
fn default_program(project: &Project) -> Result<PathBuf, String> {
    let Kind::Crate { release, binaries } = &project.kind else {
        return std::env::current_exe()
            .map_err(|error| format!("cannot find this program: {error}"));
    };
    let [name] = &binaries[..] else {
        return Err(match binaries.len() {
            0 => "the crate has no program; name the server with --binary".to_owned(),
            _ => format!(
                "the crate has several programs ({}); name the server with --binary",
                binaries.join(", ")
            ),
        });
    };
    let path = release.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "{} does not exist; run `cargo build --release` first, or name the server with --binary",
            path.display()
        )),
    }
}

fn open(path: &Path, project: &Project) -> anyhow::Result<ServerProgram> {
    let mut start = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(usage(format!("{} does not exist; build it first", path.display())));
        }
        // Shorter than any program.
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {}
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    }
    let platform = Platform::of(start).ok_or_else(|| {
        let message = "is not a program for Linux, macOS or Windows";
        usage(format!("{} {message}", path.display()))
    })?;
    let name = match &project.kind {
        Kind::Crate { .. } => project.name.clone(),
        Kind::Tools => "mcp-flow".to_owned(),
    };
    Ok(ServerProgram { path: path.to_owned(), platform, name })
}

#[cfg(test)]
mod tests {
    use super::Platform;

    #[test]
    fn systems_are_recognized_by_the_first_bytes() {
        for (start, platform) in [
            (*b"\x7fELF", Some(Platform::Linux)),
            (*b"MZ\x90\0", Some(Platform::Windows)),
            (*b"\xcf\xfa\xed\xfe", Some(Platform::Mac)),
            (*b"\xca\xfe\xba\xbe", Some(Platform::Mac)),
            (*b"#!/b", None),
            ([0; 4], None),
        ] {
            assert_eq!(Platform::of(start), platform, "{start:?}");
        }
    }
}
