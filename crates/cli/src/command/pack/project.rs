//! The project that is packed: a crate, or a directory of tool files.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Map, Value};

use super::{files, usage};
use crate::configuration::json_problem;

/// Name, texts and contents of a project.
#[derive(Debug)]
pub(super) struct Project {
    folder: PathBuf,
    pub(super) kind: Kind,
    /// Name of the server in bundles and file names.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    pub(super) author: Author,
    pub(super) license: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) homepage: Option<String>,
    /// Name in the registry, in reverse-DNS notation.
    pub(super) registry_name: Option<String>,
    /// `server.json` of the project.
    pub(super) registry_entry: Map<String, Value>,
    /// Arguments of the program.
    pub(super) arguments: Vec<String>,
    /// Names and descriptions of the tools.
    pub(super) tools: Vec<Value>,
}

/// Kind of a project.
#[derive(Debug)]
pub(super) enum Kind {
    /// A crate with the directory of its release build, and the names of its programs.
    Crate { release: PathBuf, binaries: Vec<String> },
    /// Files that this program serves.
    Tools,
}

/// Author of a server.
#[derive(Debug, Default)]
pub(super) struct Author {
    pub(super) name: String,
    pub(super) email: Option<String>,
}

/// Values of the command line, which precede those of the project.
#[derive(Debug, Default)]
pub(super) struct Overrides {
    pub(super) registry_name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) author: Option<String>,
    pub(super) arguments: Vec<String>,
}

impl Project {
    /// Reads a project and checks its names.
    pub(super) fn read(folder: &Path, overrides: Overrides) -> anyhow::Result<Self> {
        if !folder.is_dir() {
            return Err(usage(format!("{} is not a directory", folder.display())));
        }
        let entry = read_registry_entry(folder)?;
        let mut project = match folder.join("Cargo.toml").is_file() {
            true => Self::of_crate(folder)?,
            false => Self::of_tools(folder, &entry)?,
        };
        let text = |member: &str| entry.get(member)?.as_str().map(str::to_owned);
        if let Some(description) = overrides.description.or_else(|| text("description")) {
            project.description = description;
        }
        project.registry_name = overrides.registry_name.or_else(|| text("name"));
        let repository = entry.get("repository").and_then(|repository| repository["url"].as_str());
        project.repository = repository.map(str::to_owned).or(project.repository);
        if let Some(author) = overrides.author {
            project.author = Author::parse(&author);
        }
        if project.author.name.is_empty() {
            // Required by bundles. The owner of the name in the registry is who publishes it.
            let owner = project.registry_name.as_ref().and_then(|name| name.split('/').next());
            project.author.name = owner.unwrap_or(&project.name).to_owned();
        }
        if !overrides.arguments.is_empty() {
            if matches!(project.kind, Kind::Tools) {
                let message = "only the program of a crate takes arguments; set options of tool \
                               files in mcp-flow.toml";
                return Err(usage(message));
            }
            project.arguments = overrides.arguments;
        }
        project.registry_entry = entry;
        project.check()?;
        Ok(project)
    }

    /// Files that the server needs besides its program, with their paths in the project.
    pub(super) fn files(&self, output: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
        match self.kind {
            Kind::Crate { .. } => Ok(Vec::new()),
            Kind::Tools => files::list(&self.folder, output),
        }
    }

    fn of_crate(folder: &Path) -> anyhow::Result<Self> {
        let manifest = folder.join("Cargo.toml");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
            .arg(&manifest)
            .output()
            .context("cannot run cargo, which knows the version and the programs of a crate")?;
        if !output.status.success() {
            let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(usage(format!("cargo cannot read {}:\n{problem}", manifest.display())));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
        let manifest = manifest.canonicalize().unwrap_or(manifest);
        let is_this = |package: &&Value| {
            let path = package["manifest_path"].as_str().unwrap_or_default();
            Path::new(path).canonicalize().is_ok_and(|path| path == manifest)
        };
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let package = packages.clone().find(is_this).ok_or_else(|| {
            let message =
                "is a workspace without a package; name the directory of one of its crates";
            usage(format!("{} {message}", folder.display()))
        })?;
        let text = |member: &str| package[member].as_str().map(str::to_owned);
        let target = metadata["target_directory"].as_str().unwrap_or("target");
        let author = package["authors"].as_array().and_then(|authors| authors.first()?.as_str());
        Ok(Self {
            kind: Kind::Crate {
                release: Path::new(target).join("release"),
                binaries: binaries(package),
            },
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            description: text("description").unwrap_or_default(),
            author: author.map(Author::parse).unwrap_or_default(),
            license: text("license"),
            repository: text("repository"),
            homepage: text("homepage"),
            ..Self::empty(folder)
        })
    }

    fn of_tools(folder: &Path, entry: &Map<String, Value>) -> anyhow::Result<Self> {
        let place = super::manifest::FOLDER;
        let mut arguments = vec!["stdio".to_owned()];
        if folder.join("mcp-flow.toml").is_file() {
            arguments.extend(["--config".to_owned(), format!("{place}/server/mcp-flow.toml")]);
        } else if folder.join("tools").is_dir() {
            let tools = format!("{place}/server/tools");
            arguments.extend(["--no-examples".to_owned(), "--tools".to_owned(), tools]);
        } else {
            let message = "has no Cargo.toml, mcp-flow.toml or tools directory; name the directory \
                           of a project, or create one with `mcp-flow new`";
            return Err(usage(format!("{} {message}", folder.display())));
        }
        let text = |member: &str| entry.get(member).and_then(Value::as_str);
        let name = text("name").and_then(|name| name.rsplit('/').next()).map(str::to_owned);
        let of_folder = || {
            let folder = folder.canonicalize().ok()?;
            Some(folder.file_name()?.to_string_lossy().into_owned())
        };
        let name = name.or_else(of_folder).unwrap_or_default();
        Ok(Self {
            description: format!("The tools of {name}"),
            name,
            version: text("version").unwrap_or("0.1.0").to_owned(),
            arguments,
            ..Self::empty(folder)
        })
    }

    fn empty(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            kind: Kind::Tools,
            name: String::new(),
            version: String::new(),
            description: String::new(),
            author: Author::default(),
            license: None,
            repository: None,
            homepage: None,
            registry_name: None,
            registry_entry: Map::new(),
            arguments: Vec::new(),
            tools: Vec::new(),
        }
    }

    /// Rejects names and versions that would be invalid in a bundle or a file name.
    fn check(&self) -> anyhow::Result<()> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if self.name.is_empty()
            || self.name.len() > 64
            || self.name.starts_with(['.', '-'])
            || !self.name.bytes().all(is_name)
        {
            let message = "use at most 64 letters, digits, dots, `_` and `-` in the name of the \
                           directory, or of the server in server.json";
            return Err(usage(format!("invalid name {:?}: {message}", self.name)));
        }
        let is_version = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        if !self.version.starts_with(|first: char| first.is_ascii_digit())
            || self.version.len() > 64
            || !self.version.bytes().all(is_version)
            || self.version.split(['-', '+']).next().is_none_or(|core| core.split('.').count() != 3)
        {
            return Err(usage(format!("invalid version {:?}: use one like 1.2.3", self.version)));
        }
        if self.description.trim().is_empty() {
            let message = "no description; set `description` in Cargo.toml or server.json, or pass \
                           --description";
            return Err(usage(message));
        }
        Ok(())
    }
}

impl Author {
    /// Parses `Name <email>`, as Cargo.toml has it.
    fn parse(text: &str) -> Self {
        match text.trim().strip_suffix('>').and_then(|text| text.split_once('<')) {
            Some((name, email)) if email.contains('@') => {
                Self { name: name.trim().to_owned(), email: Some(email.trim().to_owned()) }
            }
            _ => Self { name: text.trim().to_owned(), email: None },
        }
    }
}

/// Names the programs of a package: the default one, or all.
fn binaries(package: &Value) -> Vec<String> {
    if let Some(default) = package["default_run"].as_str() {
        return vec![default.to_owned()];
    }
    let targets = package["targets"].as_array().into_iter().flatten();
    let is_program = |target: &&Value| {
        target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bin"))
    };
    let names = targets.filter(is_program).filter_map(|target| target["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Reads the `server.json` of a project, if it has one.
fn read_registry_entry(folder: &Path) -> anyhow::Result<Map<String, Value>> {
    let path = folder.join("server.json");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let entry: Map<String, Value> = serde_json::from_str(&text).map_err(|error| {
        let problem = json_problem(&error);
        usage(format!("{} is not a JSON object: {problem}", path.display()))
    })?;
    for (member, value) in &entry {
        let kind = match member.as_str() {
            "name" | "version" | "description" if !value.is_string() => "a text",
            "packages" if !value.is_array() => "a list",
            "repository" if !value.is_object() => "an object",
            _ => continue,
        };
        return Err(usage(format!("{}: `{member}` is not {kind}", path.display())));
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::Author;

    #[test]
    fn authors_are_parsed_as_cargo_writes_them() {
        for (text, name, email) in [
            ("Ada <ada@example.com>", "Ada", Some("ada@example.com")),
            ("Ada Lovelace", "Ada Lovelace", None),
            ("Ada <nowhere>", "Ada <nowhere>", None),
        ] {
            let author = Author::parse(text);
            assert_eq!((author.name.as_str(), author.email.as_deref()), (name, email));
        }
    }
}
