//! `mcp-flow new`: creates a project with a server of one's own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::command::workflow::create_file;
use crate::exit::{Exit, Failure};
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

    /// Directory of the crate `mcp-flow`, to build against a checkout
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
        let library = match self.template {
            Template::Rust => self.library()?,
            Template::Tools => None,
        };
        let version = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"").to_owned();
        let (requirement, context) = match &library {
            Some(path) => {
                let value = toml::Value::from(path.to_string_lossy().as_ref());
                (format!("{version}, path = {value}"), docker_context(path))
            }
            None => (version, String::new()),
        };
        let (files, next): (&[(&str, &str)], _) = match self.template {
            Template::Rust => (RUST, "cargo test"),
            Template::Tools => (TOOLS, "./test"),
        };
        for (path, text) in files {
            let text = text
                .replace("NEW_CRATE", &self.name.replace('-', "_"))
                .replace("LIBRARY", &requirement)
                .replace("# CONTEXT\n", &context);
            // The files of `tool new` are named after their tool.
            let tool = Path::new(path).file_stem().filter(|_| path.starts_with("tools/"));
            let name = tool.and_then(|tool| tool.to_str()).unwrap_or(&self.name);
            create_file(&folder.join(path), &text.replace("NEW-NAME", name))?;
        }
        make_executable(&folder.join("test"))?;
        print(&format!("Created {0}. Next: cd {0} && {next}", folder.display()))?;
        if library.is_none() && matches!(self.template, Template::Rust) {
            print(concat!(
                "Cargo.toml asks the registry for mcp-flow ",
                env!("CARGO_PKG_VERSION"),
                ". If that is not published, begin again with --library PATH, the directory \
                 crates/mcp-flow of a checkout.",
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Directory of the crate `mcp-flow`, if it is at hand.
    fn library(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.library {
            Some(path) if path.join("Cargo.toml").is_file() => Ok(Some(path.canonicalize()?)),
            Some(path) => {
                let message = format!("{} has no Cargo.toml", path.display());
                Err(Failure::new(Exit::Usage, message).into())
            }
            None => Ok(checkout()),
        }
    }
}

/// Crate `mcp-flow` of the checkout that this program was built in, or installed from.
fn checkout() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let above = program.ancestors().map(|folder| folder.join("crates/mcp-flow"));
    let built = option_env!("MCP_FLOW_LIBRARY").map(PathBuf::from);
    let mut known = above.chain(built);
    known.find(|library| library.join("guide").is_dir() && library.join("Cargo.toml").is_file())
}

/// Lines of a Dockerfile that copy a checkout, which is outside of the project, to the same place.
fn docker_context(library: &Path) -> String {
    let Some(checkout) = library.ancestors().nth(2) else { return String::new() };
    let checkout = checkout.display();
    let copy = |name: &str| format!("COPY --from=checkout {name} {checkout}/{name}\n");
    let copies: String = ["Cargo.toml", "crates", "docs"].map(copy).concat();
    format!(
        "# The library is a checkout outside of this directory. Build with\n\
         #   docker build --build-context checkout={checkout} .\n{copies}"
    )
}

/// Rejects what is no name of a crate: cargo would, too, but only after the files are written.
fn check_name(name: &str) -> anyhow::Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(is_allowed);
    let problem = if !is_name {
        "use lowercase letters, digits and hyphens, beginning with a letter"
    } else if RESERVED.contains(&name) {
        "it is a word of Rust, or the name of a crate that the project uses"
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Usage, format!("invalid name {name:?}: {problem}")).into())
}

/// Rejects a directory with content: nothing is ever overwritten.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let is_empty = match std::fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
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

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match std::fs::metadata(path) {
        Ok(file) => {
            let mut permissions = file.permissions();
            permissions.set_mode(permissions.mode() | 0o111);
            std::fs::set_permissions(path, permissions)
        }
        Err(_) => Ok(()),
    }
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> std::io::Result<()> {
    Ok(())
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
];

/// Names that cargo or the compiler rejects, or that hide a dependency.
const RESERVED: &[&str] = &[
    "abstract",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
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
    "macro",
    "match",
    "mcp-flow",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc-macro",
    "pub",
    "ref",
    "return",
    "self",
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
