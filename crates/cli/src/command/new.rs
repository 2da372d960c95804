//! `mcp-flow new`: creates a project with a server of one's own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::command::workflow::create_file;
use crate::exit::{Exit, Failure};
use crate::platform::make_executable;
use crate::terminal::output::print;

/// Create a project with an MCP server
///
/// The default template is a Rust crate with a tool, a resource, a durable flow, tests that answer and
/// crash it, a Dockerfile and a description for the registry.
#[derive(Debug, clap::Args)]
pub(crate) struct New {
    /// Name of the project, and of the directory that is created
    name: String,

    /// Kind of project
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    template: Template,

    /// Directory to create [default: NAME]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Directory of the crate `mcp-flow`, which a project in Rust is built with [default: that of the
    /// checkout this program was built in]
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Template {
    /// A crate that uses the library
    #[default]
    Rust,
    /// Tool files, without Rust
    Tools,
}

impl New {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        check_name(&self.name)?;
        let folder = self.path.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        check_folder(&folder)?;
        let (requirement, docker) = match self.template {
            Template::Rust => {
                let library = library(self.library.as_deref(), checkout())?;
                let path = toml::Value::from(library.to_string_lossy().as_ref());
                let version = env!("CARGO_PKG_VERSION");
                (format!("version = \"{version}\", path = {path}"), DockerContext::of(&library))
            }
            Template::Tools => <_>::default(),
        };
        let (files, description, next): (&[(&str, &str)], _, _) = match self.template {
            Template::Rust => {
                (RUST, "An MCP server with a tool, a resource and a durable flow", "cargo test")
            }
            Template::Tools => (TOOLS, "An MCP server whose tools are files", "./test"),
        };
        for (path, text) in files {
            let text = text
                .replace("NEW_CRATE", &self.name.replace('-', "_"))
                .replace("LIBRARY", &requirement)
                .replace("DESCRIPTION", description)
                .replace("# CONTEXT\n", &docker.copies)
                .replace("docker build ", &format!("docker build {}", docker.option));
            // The files of `tool new` are named after their tool.
            let tool = Path::new(path).file_stem().filter(|_| path.starts_with("tools/"));
            let name = tool.and_then(|tool| tool.to_str()).unwrap_or(&self.name);
            create_file(&folder.join(path), &text.replace("NEW-NAME", name))?;
        }
        make_executable(&folder.join("test"))?;
        print(&format!("Created {0}. Next: cd {0} && {next}", folder.display()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Directory of the crate `mcp-flow`: the one that is named, or else that of a known checkout. The
/// crate is not in the registry yet, so a project without it could not be built.
fn library(named: Option<&Path>, checkout: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    let message = match named {
        Some(path) if is_library(path) => return Ok(path.canonicalize()?),
        Some(path) => format!(
            "{} is not the crate mcp-flow; name the directory crates/mcp-flow of a checkout",
            path.display()
        ),
        None => match checkout {
            Some(path) => return Ok(path),
            None => "a project in Rust needs the library: pass --library DIR, the directory \
                     crates/mcp-flow of a checkout, or --template tools for one without Rust"
                .to_owned(),
        },
    };
    Err(Failure::new(Exit::Usage, message).into())
}

/// Returns whether a directory has the manifest of the crate `mcp-flow`.
fn is_library(folder: &Path) -> bool {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
    let manifest: toml::Table = manifest.parse().unwrap_or_default();
    manifest.get("package").and_then(|package| package.get("name")?.as_str()) == Some("mcp-flow")
}

/// Crate `mcp-flow` of the checkout that this program was built in, or installed from.
fn checkout() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let above = program.ancestors().map(|folder| folder.join("crates/mcp-flow"));
    let built = option_env!("MCP_FLOW_LIBRARY").map(PathBuf::from);
    above.chain(built).find(|library| is_library(library))
}

/// Checkout with the library of a project, outside of it, for the build of an image.
#[derive(Debug, Default)]
struct DockerContext {
    /// Option of `docker build` that names the checkout.
    option: String,
    /// Lines of a Dockerfile that copy it to the same place.
    copies: String,
}

impl DockerContext {
    fn of(library: &Path) -> Self {
        let Some(checkout) = library.ancestors().nth(2) else { return Self::default() };
        let checkout = checkout.display();
        let option = format!("--build-context checkout={checkout} ");
        let copy = |name: &str| format!("COPY --from=checkout {name} {checkout}/{name}\n");
        let copies = ["Cargo.toml", "crates", "docs"].map(copy).concat();
        let why = "# The library is a checkout outside of this directory. Build with\n";
        Self { copies: format!("{why}#   docker build .\n{copies}"), option }
    }
}

/// Rejects what is no name of a crate: cargo would, too, but only after the files are written.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().last().is_some_and(is_alphanumeric)
        && name.bytes().all(|byte| is_alphanumeric(byte) || b"-_".contains(&byte));
    let problem = if !is_name {
        "use lowercase letters, digits, hyphens and underscores, beginning with a letter and ending with \
         a letter or digit"
    } else if RESERVED.contains(&name.replace('_', "-").as_str()) {
        "it is a word of Rust, a crate that the project uses, or no file name on Windows"
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, format!("invalid name {name:?}: {problem}")).into())
}

/// Rejects a directory with content: nothing is ever overwritten.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(_) if folder.is_symlink() => {
            let message = format!("{} is a link that leads to no directory", folder.display());
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let message =
                format!("{} is, or is in, a file; choose another name or --path", folder.display());
            return Err(Failure::new(Exit::Usage, message).into());
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", folder.display()));
        }
    };
    if is_empty {
        return Ok(());
    }
    let message = format!("{} is not empty; choose another name or --path", folder.display());
    Err(Failure::new(Exit::Usage, message).into())
}

/// Files of a project, with their paths in it.
const RUST: &[(&str, &str)] = &[
    // Not named Cargo.toml here, which would make it a package of its own.
    ("Cargo.toml", include_str!("new/rust/Cargo.toml.template")),
    ("src/lib.rs", include_str!("new/rust/src/lib.rs")),
    ("src/main.rs", include_str!("new/rust/src/main.rs")),
    ("tests/server.rs", include_str!("new/rust/tests/server.rs")),
    ("Dockerfile", include_str!("new/rust/Dockerfile")),
    ("server.json", include_str!("new/rust/server.json")),
    ("README.md", include_str!("new/rust/README.md")),
    (".gitignore", include_str!("new/rust/gitignore")),
    (".dockerignore", include_str!("new/rust/dockerignore")),
];

const TOOLS: &[(&str, &str)] = &[
    ("mcp-flow.toml", include_str!("new/tools/mcp-flow.toml")),
    ("tools/disk.yaml", include_str!("tool/run.yaml")),
    ("tools/greet.yaml", include_str!("tool/flow.yaml")),
    ("test", include_str!("new/tools/test")),
    ("Dockerfile", include_str!("new/tools/Dockerfile")),
    ("server.json", include_str!("new/rust/server.json")),
    ("README.md", include_str!("new/tools/README.md")),
    (".gitignore", include_str!("new/tools/gitignore")),
    (".dockerignore", include_str!("new/tools/dockerignore")),
];

/// Names that cargo or the compiler rejects, or that hide a dependency.
const RESERVED: &[&str] = &[
    "abstract",
    "as",
    "async",
    "aux",
    "await",
    "become",
    "box",
    "break",
    "build",
    "com1",
    "com2",
    "com3",
    "com4",
    "con",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "lpt1",
    "lpt2",
    "lpt3",
    "lpt4",
    "macro",
    "main",
    "match",
    "mcp-flow",
    "mod",
    "move",
    "mut",
    "nul",
    "override",
    "priv",
    "prn",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "struct",
    "super",
    "tempfile",
    "test",
    "tokio",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{RUST, TOOLS, library};

    #[test]
    fn projects_in_rust_need_the_library() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let crates = own.parent().unwrap();
        let path = crates.join("mcp-flow");
        assert_eq!(library(Some(&path), None).unwrap(), path);
        assert_eq!(library(None, Some(PathBuf::from("known"))).unwrap(), Path::new("known"));
        for other in [own, crates, Path::new("nowhere")] {
            let refused = library(Some(other), Some(path.clone())).unwrap_err().to_string();
            assert!(refused.contains("is not the crate mcp-flow"), "{refused}");
        }
        let refused = library(None, None).unwrap_err().to_string();
        assert!(refused.contains("--library") && refused.contains("--template tools"), "{refused}");
    }

    /// A volume takes its owner from the image; a directory that is not there belongs to root.
    #[test]
    fn the_user_of_an_image_owns_its_volumes() {
        for files in [RUST, TOOLS] {
            let file = |name| files.iter().find(|(path, _)| *path == name).unwrap().1;
            let lines: Vec<_> = file("Dockerfile").lines().collect();
            let position = |start: &str| {
                let found = lines.iter().position(|line| line.starts_with(start));
                found.unwrap_or_else(|| panic!("no line {start}"))
            };
            let volume = lines[position("VOLUME ")].trim_start_matches("VOLUME ");
            let (as_root, _) = lines.split_at(position("USER server"));
            let creates_home = format!("RUN useradd --system --create-home --home-dir {volume} ");
            let creates = format!("RUN mkdir {volume} && chown --recursive server ");
            let is_owned =
                |line: &&str| line.starts_with(&creates) || line.starts_with(&creates_home);
            assert!(as_root.iter().any(is_owned), "{volume} belongs to nobody: {lines:#?}");
            assert!(file(".dockerignore").contains(".git\n"), "history is not copied to images");
        }
    }
}
