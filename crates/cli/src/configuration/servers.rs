//! Servers by name: of our own file, and of the files other hosts keep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::File;
use crate::approval::{Approvals, ModelEntry};
use crate::exit::{Exit, Failure};
use crate::target::{Address, Spawn, Target, is_address};

/// The servers that can be called by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    servers: BTreeMap<String, (Entry, PathBuf)>,
    /// What all servers may do.
    policies: Approvals,
    /// The models servers may ask for.
    pub(crate) models: BTreeMap<String, ModelEntry>,
    looked_in: Vec<PathBuf>,
}

/// A server as hosts write it down: by its address or by the command that starts it. `${NAME}` in
/// any value stands for an environment variable.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Entry {
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Headers to send with every request.
    headers: BTreeMap<String, String>,
    /// The program that is the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The arguments of the program.
    args: Vec<String>,
    /// Environment variables of the program.
    env: BTreeMap<String, String>,
    /// The folder the program runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// What it may do here; what is not said here is as for all servers.
    policies: Approvals,
}

/// Whose word a file is. Only the user says what servers may do and which models they may ask:
/// a folder that was downloaded cannot allow itself anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    User,
    Folder,
}

impl Configuration {
    /// Reads one file, or the usual ones: `mcp-flow/config.toml` of the user, then `.mcp.json` of
    /// this folder, which adds names and takes none over.
    pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut configuration = Self::default();
        if let Some(file) = file {
            configuration.add(file, Standing::User)?;
            return Ok(configuration);
        }
        for (file, standing) in usual_files() {
            if file.is_file() {
                configuration.add(&file, standing)?;
            } else {
                configuration.looked_in.push(file);
            }
        }
        Ok(configuration)
    }

    fn add(&mut self, file: &Path, standing: Standing) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
        let File { servers, policies, models, .. } = parse(&text).map_err(|problem| {
            let message = format!(
                "{} is no configuration: {problem}. Servers are in `mcpServers` (JSON) or \
                 [servers.NAME] (TOML), each with `url` or `command`",
                file.display()
            );
            Failure::new(Exit::Usage, message)
        })?;
        for (name, mut entry) in servers {
            if standing == Standing::Folder {
                entry.policies = Approvals::default();
            }
            self.servers.entry(name).or_insert_with(|| (entry, file.to_owned()));
        }
        if standing == Standing::User {
            (self.policies, self.models) = (policies, models);
        }
        self.looked_in.push(file.to_owned());
        Ok(())
    }

    /// What a server may do, by its name if it has one here.
    pub(crate) fn approvals(&self, name: Option<&str>) -> Approvals {
        let own = name.and_then(|name| self.servers.get(name)).map(|(entry, _)| &entry.policies);
        own.cloned().unwrap_or_default().or(&self.policies)
    }

    /// A server by its name.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<Target> {
        let Some((entry, file)) = self.servers.get(name) else {
            let files: Vec<_> =
                self.looked_in.iter().map(|file| file.display().to_string()).collect();
            let names: Vec<_> = self.servers.keys().map(String::as_str).collect();
            let names = match names.is_empty() {
                true => "which name none".to_owned(),
                false => format!("which name {}", names.join(", ")),
            };
            let message = format!(
                "no server is called {name:?} in {}, {names}. An address begins with http://, \
                 https://, ws:// or wss://",
                files.join(" and ")
            );
            return Err(Failure::new(Exit::Usage, message).into());
        };
        entry.target(|variable| std::env::var(variable).ok()).map_err(|problem| {
            let message = format!("the server {name:?} in {}: {problem}", file.display());
            Failure::new(Exit::Usage, message).into()
        })
    }
}

impl Entry {
    /// Values of headers and of the environment may be secrets; names are not.
    pub(super) fn hide_secrets(&mut self) {
        let values = self.headers.values_mut().chain(self.env.values_mut());
        values.for_each(|value| "(hidden)".clone_into(value));
    }

    fn target(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Target, String> {
        let filled = |text: &String| fill(text, &variable);
        let all = |map: &BTreeMap<String, String>| -> Result<BTreeMap<String, String>, String> {
            map.iter().map(|(name, value)| Ok((name.clone(), filled(value)?))).collect()
        };
        match (&self.url, &self.command) {
            (Some(url), None) => {
                let url = filled(url)?;
                if !is_address(&url) {
                    return Err(format!("{url} is no address"));
                }
                Ok(Target::Address(Address { url, headers: all(&self.headers)? }))
            }
            (None, Some(command)) => {
                let arguments: Result<Vec<_>, _> = self.args.iter().map(filled).collect();
                Ok(Target::Command(Spawn {
                    program: filled(command)?.into(),
                    arguments: arguments?.into_iter().map(Into::into).collect(),
                    environment: all(&self.env)?,
                    folder: self.cwd.as_ref().map(filled).transpose()?,
                }))
            }
            _ => Err("it needs either `url` or `command`".to_owned()),
        }
    }
}

/// What is in a file: TOML of our own, or the JSON of other hosts, which has nothing but servers.
fn parse(text: &str) -> Result<File, String> {
    if !text.trim_start().starts_with('{') {
        return File::parse(text);
    }
    let mut file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let names = ["servers", "mcpServers", "mcp_servers"];
    let Some(name) = names.into_iter().find(|name| file.get(*name).is_some()) else {
        return Ok(File::default());
    };
    let mut servers = file[name].take();
    // Other hosts know more of a server than is of use here.
    for entry in servers.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        if let Value::Object(members) = entry {
            members.retain(|name, _| KNOWN.contains(&name.as_str()));
        }
    }
    let servers = serde_json::from_value(servers).map_err(|error| error.to_string())?;
    Ok(File { servers, ..File::default() })
}

/// What is read of a server that another host knows.
const KNOWN: [&str; 6] = ["url", "headers", "command", "args", "env", "cwd"];

/// Puts in what `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` stand for.
fn fill(text: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = variable(name).or_else(|| otherwise.map(str::to_owned));
        let value = value.ok_or_else(|| format!("the environment has no {name}; set it"))?;
        filled.push_str(before);
        filled.push_str(&value);
        rest = behind;
    }
    Ok(filled + rest)
}

fn usual_files() -> Vec<(PathBuf, Standing)> {
    let folder = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".config"));
    let own = folder.filter(|folder| folder.is_absolute()).or_else(home);
    let own = own.map(|folder| (folder.join("mcp-flow").join("config.toml"), Standing::User));
    own.into_iter().chain([(PathBuf::from(".mcp.json"), Standing::Folder)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Configuration, Target, parse};
    use crate::target::{Address, Spawn};

    fn target(file: &str, name: &str) -> Result<Target, String> {
        let variable = |name: &str| (name == "KEY").then(|| "secret".to_owned());
        parse(file)?.servers.get(name).ok_or("no such name")?.target(variable)
    }

    /// The files of other hosts are understood, and our own says the same in TOML.
    #[test]
    fn servers_are_found_in_the_files_of_all_hosts() {
        let spawn = Target::Command(Spawn {
            program: "npx".into(),
            arguments: vec!["-y".into(), "server".into()],
            environment: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
            folder: None,
        });
        let address = |url: &str| {
            let headers = BTreeMap::from([("X-Key".to_owned(), "secret".to_owned())]);
            Target::Address(Address { url: url.to_owned(), headers })
        };
        for (file, expected) in [
            (
                r#"{"mcpServers": {"it": {"command": "npx", "args": ["-y", "server"],
                    "env": {"TOKEN": "${KEY}"}, "disabled": false}}, "theme": "dark"}"#,
                spawn.clone(),
            ),
            (
                "[servers.it]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\nenv.TOKEN = \"${env:KEY}\"",
                spawn,
            ),
            (
                r#"{"servers": {"it": {"type": "http", "url": "https://h/${NONE:-mcp}",
                    "headers": {"X-Key": "${KEY}"}}}}"#,
                address("https://h/mcp"),
            ),
            (
                r#"{"mcpServers": {"it": {"type": "sse", "url": "https://h/events",
                    "headers": {"X-Key": "${KEY}"}}}}"#,
                address("https://h/events"),
            ),
        ] {
            assert_eq!(target(file, "it"), Ok(expected), "{file}");
        }
        for (file, problem) in [
            (r#"{"mcpServers": {"it": {}}}"#, "url"),
            (r#"{"mcpServers": {"it": {"url": "here"}}}"#, "no address"),
            (r#"{"mcpServers": {"it": {"command": "${NONE}"}}}"#, "NONE"),
            (r#"{"mcpServers": {"it": 7}}"#, "invalid type"),
            ("servers = 7", "invalid type"),
            ("{", "EOF"),
        ] {
            let told = target(file, "it").unwrap_err();
            assert!(told.contains(problem), "{told}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let told = Configuration::read(Some("/nowhere/at/all.toml".as_ref())).unwrap_err();
        assert!(format!("{told:#}").contains("/nowhere/at/all.toml"));
    }
}
