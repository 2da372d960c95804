//! `mcp-flow tool import`: writes a tool file from an OpenAPI description.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow_declarative::document::{Format, FoundFile};
use mcp_flow_declarative::openapi::{ImportOptions, Imported, import, to_yaml};

use crate::command::workflow::create_file;
use crate::terminal::output::{print, sanitize};

/// Options of the command.
pub(super) struct Import {
    pub(super) spec: PathBuf,
    pub(super) only: Vec<String>,
    pub(super) write: Option<PathBuf>,
    pub(super) prefix: String,
    pub(super) server: Option<String>,
}

pub(super) fn run(options: &Import) -> anyhow::Result<ExitCode> {
    let path = &options.spec;
    let unread = || match path.to_str().is_some_and(|path| path.contains("://")) {
        true => format!("{0} is no file; download it first: curl -LO {0}", path.display()),
        false => format!("cannot read {}", path.display()),
    };
    path.metadata().with_context(unread)?;
    let found = FoundFile::named(path);
    let text = found.read(MAX_BYTES).map_err(anyhow::Error::msg).with_context(unread)?;
    // A description may have any name.
    let format = match text.trim_start().starts_with('{') {
        true => Format::Json,
        false => Format::Yaml,
    };
    let spec = format
        .parse_up_to(&text, MAX_VALUES)
        .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?;
    let only = options.only.clone();
    let settings =
        ImportOptions { only, prefix: options.prefix.clone(), server: options.server.clone() };
    let Imported { file, tools, left_out, secrets, private } = import(&spec, &settings)?;
    let yaml = to_yaml(&file);
    for reason in &left_out {
        eprintln!("left out: {}", sanitize(reason));
    }
    let note = match left_out.len() {
        0 => String::new(),
        count => format!(", and left out {count}"),
    };
    eprintln!("Imported {tools} tools{note}.");
    if !secrets.is_empty() {
        eprintln!("Set these environment variables: {}", sanitize(&secrets.join(", ")));
    }
    if !private.is_empty() {
        let hosts = sanitize(&private.join(", "));
        eprintln!("The tools may connect to {hosts}, which is not public: see `allow_private`.");
    }
    match &options.write {
        Some(path) => {
            create_file(path, &yaml)?;
            print(&format!("Created {0}. Check it with: mcp-flow tool check {0}", path.display()))?;
        }
        None => print(yaml.trim_end())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Limit on the size of a description. The largest public ones have 12 MB.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

const MAX_VALUES: usize = 5_000_000;
