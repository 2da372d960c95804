//! Servers by name, from our own file and from the files of other MCP hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::json_comments::blank_comments;
use super::{File, OAuthSection, json_problem};
use crate::client::approval::{ApprovalPolicies, ModelEntry};
use crate::client::suggestion::did_you_mean;
use crate::client::target::{Address, Spawn, Target, is_address};
use crate::exit::{Exit, Failure};

/// Configuration of client commands: named servers, their policies, and models.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientConfiguration {
    servers: BTreeMap<String, (ServerEntry, PathBuf)>,
    /// Policies for all servers.
    policies: ApprovalPolicies,
    /// Models that servers may use for sampling.
    pub(crate) models: BTreeMap<String, ModelEntry>,
    files: Vec<PathBuf>,
}

/// Server by its address, or by the command that starts it. `${NAME}` in any value is replaced by an
/// environment variable.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerEntry {
    /// Address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Headers for every request.
    headers: BTreeMap<String, String>,
    /// Program that is started as the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// Arguments of the program.
    args: Vec<String>,
    /// Environment variables of the program.
    env: BTreeMap<String, String>,
    /// Working directory of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    /// OAuth client of this server: the way it obtains tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    oauth: Option<OAuthSection>,
    /// Approval policies for this server; missing ones are those for all servers.
    policies: ApprovalPolicies,
    /// Only protocol revision to use with it, if it is served, such as `2025-11-25`; otherwise the newest
    /// that it supports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
    /// True if `serve` and `stdio` serve its tools, prompts and resources (`docs/gateway.md`). Only
    /// the file of `--config` counts, never a found one.
    pub(crate) gateway: bool,
    /// Callers that share a connection or process, if it is served.
    pub(crate) isolation: IsolationStyle,
    /// Limit on processes for calls of one principal that are asked at the same time, if it is served.
    pub(crate) instances: usize,
    /// Seconds without use after which it is stopped, if it is served.
    pub(crate) idle_seconds: u64,
    /// Seconds to wait for a response without progress, if it is served.
    pub(crate) timeout_seconds: u64,
    /// Seconds to wait until it has started, if it is served.
    pub(crate) connect_seconds: u64,
    /// Seconds to wait for the answer to its questions while a call waits, and for approval of a call.
    pub(crate) answer_seconds: u64,
    /// Longest message of it that is kept in memory, in bytes. Large texts and bytes of longer results go
    /// to temporary files.
    pub(crate) result_bytes: usize,
    /// Limit on the temporary files for its results, in bytes, of all calls together; 0 for none.
    pub(crate) spool_bytes: u64,
    /// OAuth account that is used for it, if it is served.
    pub(crate) auth: AuthStyle,
    /// Tools that are served, by name with or without prefix; `*` matches any characters, and a
    /// leading `!` excludes.
    pub(crate) expose: Vec<String>,
    /// Names of its tools behind the gateway, by its own names.
    pub(crate) rename: BTreeMap<String, String>,
    /// Tools whose calls a person approves, like `expose`; `unless-read-only` for all that do not
    /// only read, as its annotations say.
    pub(crate) approve: OneOrMore,
    /// True if its annotations are trusted to say which tools only read.
    pub(crate) trust_annotations: bool,
    /// Tools whose calls may be sent again after a crash, like `expose`.
    pub(crate) rerun: Vec<String>,
    /// False to serve changed definitions of tools without approval; otherwise they are quarantined
    /// until they are approved.
    pub(crate) pins: bool,
}

/// OAuth account that a served server is used with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuthStyle {
    /// Only its `headers`.
    #[default]
    None,
    /// The account that `mcp-flow login URL` stored for the user who runs this server, refreshed as
    /// needed; for a `url`.
    Shared,
    /// An account for each principal, which is asked to log in when it first uses the server.
    User,
}

/// One text, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(crate) fn as_slice(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

impl Default for OneOrMore {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

/// Callers that share a connection to a served server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IsolationStyle {
    #[default]
    Shared,
    Session,
    Principal,
}

impl Default for ServerEntry {
    fn default() -> Self {
        Self {
            url: None,
            headers: BTreeMap::new(),
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            oauth: None,
            policies: ApprovalPolicies::default(),
            revision: None,
            gateway: false,
            isolation: IsolationStyle::default(),
            instances: 4,
            idle_seconds: 300,
            timeout_seconds: 300,
            connect_seconds: 30,
            answer_seconds: 600,
            result_bytes: 16 << 20,
            spool_bytes: 1 << 30,
            auth: AuthStyle::default(),
            expose: vec!["*".to_owned()],
            rename: BTreeMap::new(),
            approve: OneOrMore::default(),
            trust_annotations: false,
            rerun: Vec::new(),
            pins: true,
        }
    }
}

/// Owner of a file. Only the user's own file sets policies and models: a downloaded project must not
/// grant itself permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Project,
}

impl ClientConfiguration {
    /// Reads one file, or the default ones: the user's `mcp-flow/config.toml`, then `.mcp.json` of the
    /// current directory, which adds names and overrides none.
    pub(crate) fn read(file: Option<&Path>) -> anyhow::Result<Self> {
        let mut configuration = Self::default();
        if let Some(file) = file {
            configuration.add(file, Owner::User)?;
            return Ok(configuration);
        }
        for (file, owner) in default_files() {
            if file.is_file() {
                configuration.add(&file, owner)?;
            } else {
                configuration.files.push(file);
            }
        }
        Ok(configuration)
    }

    fn add(&mut self, file: &Path, owner: Owner) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let File { servers, policies, models, .. } = parse(&text).map_err(|problem| {
            let message = format!(
                "{}: {problem}. Define servers in `mcpServers` (JSON) or [servers.NAME] (TOML), each \
                 with `url` or `command`",
                file.display()
            );
            Failure::new(Exit::Usage, message)
        })?;
        for (name, mut entry) in servers {
            entry.resolve(file.parent().unwrap_or(Path::new("")));
            if owner == Owner::Project {
                entry.policies = ApprovalPolicies::default();
            }
            self.servers.entry(name).or_insert_with(|| (entry, file.to_owned()));
        }
        if owner == Owner::User {
            (self.policies, self.models) = (policies, models);
        }
        self.files.push(file.to_owned());
        Ok(())
    }

    /// Returns the policies for a server, by its name if it has one.
    pub(crate) fn approvals(&self, name: Option<&str>) -> ApprovalPolicies {
        let own = name.and_then(|name| self.servers.get(name)).map(|(entry, _)| &entry.policies);
        own.cloned().unwrap_or_default().or(&self.policies)
    }

    /// Returns the names of all servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.keys().map(String::as_str)
    }

    /// Returns the file that defines a server.
    pub(crate) fn file_of(&self, name: &str) -> Option<&Path> {
        self.servers.get(name).map(|(_, file)| file.as_path())
    }

    /// Finds a server by its name.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<Target> {
        let Some((entry, file)) = self.servers.get(name) else {
            let files: Vec<_> = self.files.iter().map(|file| file.display().to_string()).collect();
            let names: Vec<_> = self.servers.keys().map(String::as_str).collect();
            let names = match names.is_empty() {
                true => "no server is defined there".to_owned(),
                false => format!("the servers there are {}", names.join(", ")),
            };
            let message = format!(
                "no server named {name:?} in {}; {names}. {}",
                files.join(" and "),
                self.hint(name)
            );
            return Err(Failure::new(Exit::Usage, message).into());
        };
        entry.target(|variable| std::env::var(variable).ok()).map_err(|problems| {
            let file = file.display();
            let lines = problems.iter();
            let lines = lines.map(|problem| format!("server {name:?} in {file}: {}", problem.text));
            Failure::new(Exit::Usage, lines.collect::<Vec<_>>().join("\n")).into()
        })
    }

    /// Suggests the server that was meant: an address without its scheme, or a name like it.
    fn hint(&self, name: &str) -> String {
        let is_port = |text: &str| text.trim_end_matches('/').parse::<u16>().is_ok();
        let (host, rest) = name.split_once(':').unwrap_or((name, ""));
        let (port, _) = rest.split_once('/').unwrap_or((rest, ""));
        if !host.is_empty() && is_port(port) {
            return format!("Did you mean http://{name}?");
        }
        let otherwise = "An address starts with http://, https://, ws:// or wss://";
        did_you_mean(name, self.servers.keys().map(String::as_str), otherwise)
    }
}

impl ServerEntry {
    /// Hides the values of headers and environment variables, which may be secrets.
    pub(super) fn hide_secrets(&mut self) {
        let values = self.headers.values_mut().chain(self.env.values_mut());
        values.for_each(|value| "(hidden)".clone_into(value));
    }

    /// Adds environment variables that the entry does not set itself.
    pub(super) fn add_variables(&mut self, variables: BTreeMap<String, String>) {
        for (name, value) in variables {
            self.env.entry(name).or_insert(value);
        }
    }

    /// Makes paths relative to the folder of the file absolute.
    pub(super) fn resolve(&mut self, folder: &Path) {
        self.oauth.iter_mut().for_each(|oauth| oauth.resolve(folder));
    }

    /// The address or command, with environment variables filled in, or all problems with it.
    pub(crate) fn target(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Target, Vec<EntryProblem>> {
        let mut problems = Vec::new();
        let mut expand = |path: &[&str], text: &str| {
            let (expanded, missing) = expand_variables(text, &variable);
            problems.extend(missing.into_iter().map(|text| EntryProblem::new(path, text)));
            expanded
        };
        let target = match (&self.url, &self.command) {
            (Some(url), None) => {
                let expanded = expand(&["url"], url);
                let headers = self.headers.iter();
                let headers = headers
                    .map(|(name, value)| (name.clone(), expand(&["headers", name], value)))
                    .collect();
                if problems.is_empty() && !is_address(&expanded) {
                    let what = format!("{expanded} is not a server address");
                    problems.push(EntryProblem::new(&["url"], what));
                }
                let oauth = self.oauth.clone().map(Box::new);
                Target::Address(Address { url: expanded, headers, oauth })
            }
            (None, Some(command)) => {
                let program = expand(&["command"], command).into();
                let arguments = self.args.iter().enumerate();
                let arguments = arguments
                    .map(|(index, value)| expand(&["args", &index.to_string()], value).into())
                    .collect();
                let environment = self.env.iter();
                let environment = environment
                    .map(|(name, value)| (name.clone(), expand(&["env", name], value)))
                    .collect();
                let folder = self.cwd.as_ref().map(|folder| expand(&["cwd"], folder));
                if command.trim().is_empty() {
                    let what = "`command` is empty; name the program that is started";
                    problems.push(EntryProblem::new(&["command"], what));
                }
                Target::Command(Spawn { program, arguments, environment, folder })
            }
            _ => return Err(vec![EntryProblem::new(&[], "set either `url` or `command`")]),
        };
        if problems.is_empty() { Ok(target) } else { Err(problems) }
    }
}

/// Problem of a server's entry, with the path of keys to its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryProblem {
    pub(crate) path: Vec<String>,
    pub(crate) text: String,
}

impl EntryProblem {
    pub(crate) fn new(path: &[&str], text: impl Into<String>) -> Self {
        let path = path.iter().map(|key| (*key).to_owned()).collect();
        Self { path, text: text.into() }
    }
}

/// Parses a file: our own TOML, or the JSON of other MCP hosts, of which only servers are read.
fn parse(text: &str) -> Result<File, String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    if !text.trim_start().starts_with(['{', '/']) {
        return File::parse(text);
    }
    let mut file: Value =
        serde_json::from_str(&blank_comments(text)).map_err(|error| json_problem(&error))?;
    let names = ["servers", "mcpServers", "mcp_servers"];
    let Some(name) = names.into_iter().find(|name| file.get(*name).is_some()) else {
        return Ok(File::default());
    };
    let Value::Object(servers) = file[name].take() else {
        return Err(format!("`{name}` must be an object from name to server"));
    };
    let servers = servers.into_iter().map(|(server, mut entry)| {
        // Other hosts have more keys than are used here.
        if let Value::Object(members) = &mut entry {
            members.retain(|key, _| KNOWN.contains(&key.as_str()));
        }
        let entry = serde_json::from_value(entry)
            .map_err(|error| format!("`{name}.{server}`: {}", json_problem(&error)))?;
        Ok((server, entry))
    });
    let servers = servers.collect::<Result<_, String>>()?;
    Ok(File { servers, ..File::default() })
}

/// Keys of a server that are read from the file of another host.
pub(super) const KNOWN: [&str; 6] = ["url", "headers", "command", "args", "env", "cwd"];

/// Mark at the beginning of files of some editors.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// Replaces `${NAME}`, `${env:NAME}` and `${NAME:-default}` by environment variables. Returns the
/// problems with those that have no value.
fn expand_variables(
    text: &str,
    variable: &impl Fn(&str) -> Option<String>,
) -> (String, Vec<String>) {
    let (mut expanded, mut problems) = (String::new(), Vec::new());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        let value = variable(name).or_else(|| default.map(str::to_owned));
        if value.is_none() {
            problems.push(match name.contains(':') {
                true => format!(
                    "only the host that the file is for knows ${{{name}}}; put the value or an \
                     environment variable in its place"
                ),
                false => format!("the environment variable {name} is not set"),
            });
        }
        expanded.push_str(before);
        expanded.push_str(value.as_deref().unwrap_or_default());
        rest = behind;
    }
    (expanded + rest, problems)
}

fn default_files() -> Vec<(PathBuf, Owner)> {
    let folder = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || std::env::home_dir().map(|home| home.join(".config"));
    let own = folder.filter(|folder| folder.is_absolute()).or_else(home);
    let own = own.map(|folder| (folder.join("mcp-flow").join("config.toml"), Owner::User));
    own.into_iter().chain([(PathBuf::from(".mcp.json"), Owner::Project)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{ClientConfiguration, Target, parse};
    use crate::client::target::{Address, Spawn};

    fn target(file: &str, name: &str) -> Result<Target, String> {
        let variable = |name: &str| (name == "KEY").then(|| "secret".to_owned());
        let target = parse(file)?.servers.get(name).ok_or("no such name")?.target(variable);
        target.map_err(|problems| {
            problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>().join("; ")
        })
    }

    /// The JSON files of other hosts are read, and our own TOML has the same keys.
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
            Target::Address(Address { url: url.to_owned(), headers, oauth: None })
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
            (
                "\u{feff}// mine\n{\"mcpServers\": {\"it\": {\"url\": \"https://h/mcp\", /* as above */
                    \"headers\": {\"X-Key\": \"${KEY}\",},},}}",
                address("https://h/mcp"),
            ),
        ] {
            assert_eq!(target(file, "it"), Ok(expected), "{file}");
        }
        for (file, problem) in [
            (r#"{"mcpServers": {"it": {}}}"#, "url"),
            (r#"{"mcpServers": {"it": {"url": "here"}}}"#, "not a server address"),
            (r#"{"mcpServers": {"it": {"command": " "}}}"#, "`command` is empty"),
            (r#"{"mcpServers": {"it": {"command": "${NONE}"}}}"#, "NONE"),
            (
                r#"{"mcpServers": {"it": {"url": "${ONE}", "headers": {"A": "${TWO}"}}}}"#,
                "ONE is not set; the environment variable TWO",
            ),
            (r#"{"mcpServers": {"it": {"command": "${input:key}"}}}"#, "only the host"),
            (r#"{"mcpServers": {"it": 7}}"#, "found integer `7`"),
            ("servers = 7", "found integer `7`"),
            ("{", "line 1, column 1: the text ends"),
        ] {
            let error = target(file, "it").unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = ClientConfiguration::read(Some("/nowhere/at/all.toml".as_ref())).unwrap_err();
        assert!(format!("{error:#}").contains("/nowhere/at/all.toml"));
    }
}
