//! Files of other MCP hosts whose servers are all served: `mcpServers` in JSON, or our own TOML.
//!
//! Every problem is reported with its line. Keys that only the host knows are ignored.

use std::path::Path;

use anyhow::Context as _;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::problems::line_and_column;
use super::servers::{KNOWN, ServerEntry};
use super::{File, json_problem};
use crate::exit::{Exit, Failure};

/// Servers of a file, in its order.
#[derive(Debug)]
pub(crate) struct GatewayFile {
    /// Servers by name, without those that cannot be read.
    pub(crate) servers: Vec<(String, ServerEntry)>,
    /// Names of all servers, with their positions in the text.
    names: Vec<(String, usize)>,
    /// Problems, with their positions.
    problems: Vec<(usize, String)>,
    text: String,
}

impl GatewayFile {
    /// Reads a file. Problems with single entries are kept, to be reported together with
    /// [those that are found later](Self::add_problem).
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(text, |name| std::env::var(name).ok())
            .map_err(|problem| failure(path, &[problem]))
    }

    /// Names of all servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// Adds a problem with an entry.
    pub(crate) fn add_problem(&mut self, name: &str, problem: &str) {
        let at = self.names.iter().rfind(|(known, _)| known == name).map(|(_, at)| *at);
        self.problems.push((at.unwrap_or_default(), format!("server {name:?}: {problem}")));
    }

    /// Fails with all problems, if there are any.
    pub(crate) fn check(&self, path: &Path) -> anyhow::Result<()> {
        let problems = self.messages();
        if problems.is_empty() { Ok(()) } else { Err(failure(path, &problems)) }
    }

    /// Problems in the order of the text, with line and column.
    fn messages(&self) -> Vec<String> {
        let mut problems: Vec<_> = self.problems.iter().collect();
        problems.sort_by_key(|(at, _)| *at);
        problems.iter().map(|(at, problem)| locate(&self.text, *at, problem)).collect()
    }

    fn parse(text: String, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let is_object = text.trim_start().starts_with('{');
        // Neither is TOML that anybody means.
        if text.trim().is_empty() || (!is_object && serde_json::from_str::<Value>(&text).is_ok()) {
            return Err(NO_SERVERS.to_owned());
        }
        if !is_object {
            let servers: Vec<_> = File::parse(&text)?.servers.into_iter().collect();
            let position = |name: &str| {
                let header = text.find(&format!("[servers.{name}]"));
                header.or_else(|| text.find(name)).unwrap_or_default()
            };
            let names = servers.iter().map(|(name, _)| (name.clone(), position(name))).collect();
            return Ok(Self { names, servers, problems: Vec::new(), text });
        }
        let (mut servers, mut names, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let (section, found) = entries(&text)?;
        for (name, raw) in found {
            let at = offset(&text, raw);
            let mut own = Vec::new();
            if names.iter().any(|(known, _)| *known == name) {
                own.push((at, "it is defined twice".to_owned()));
            }
            let entry = read_entry(&text, raw, &mut own);
            if entry.is_none() && own.is_empty() {
                // It is disabled.
                continue;
            }
            if let Some(entry) = &entry
                && own.is_empty()
                && let Err(problem) = entry.target(&variable)
            {
                own.push((at, problem));
            }
            let is_valid = own.is_empty();
            let own = own.into_iter();
            problems.extend(own.map(|(at, what)| (at, format!("`{section}.{name}`: {what}"))));
            if let Some(entry) = entry.filter(|_| is_valid) {
                servers.push((name.clone(), entry));
            }
            if !names.iter().any(|(known, _)| *known == name) {
                names.push((name, at));
            }
        }
        Ok(Self { servers, names, problems, text })
    }
}

/// Entries of an object, by name.
type Entries<'a> = Vec<(String, &'a RawValue)>;

/// The member that holds the servers, and its members.
fn entries(text: &str) -> Result<(&'static str, Entries<'_>), String> {
    let whole: Members<'_> = serde_json::from_str(text).map_err(|error| json_problem(&error))?;
    for name in ["mcpServers", "servers", "mcp_servers"] {
        let Some((_, section)) = whole.0.iter().find(|(known, _)| known == name) else { continue };
        return match serde_json::from_str(section.get()) {
            Ok(Members(servers)) => Ok((name, servers)),
            Err(_) => {
                let problem = format!("`{name}` must be an object from name to server");
                Err(locate(text, offset(text, section), &problem))
            }
        };
    }
    Err(NO_SERVERS.to_owned())
}

const NO_SERVERS: &str = "line 1, column 1: there is no object `mcpServers` from name to server";

/// Reads one server; `None` if it is disabled or unusable.
fn read_entry(
    text: &str,
    raw: &RawValue,
    problems: &mut Vec<(usize, String)>,
) -> Option<ServerEntry> {
    let Ok(Members(members)) = serde_json::from_str(raw.get()) else {
        problems.push((offset(text, raw), "it must be an object".to_owned()));
        return None;
    };
    let mut known = serde_json::Map::new();
    for (key, raw) in members {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        // Other hosts call the address otherwise.
        let key = match key.as_str() {
            "httpUrl" | "serverUrl" => "url".to_owned(),
            _ => key,
        };
        if key == "disabled" && value == Value::Bool(true) {
            return None;
        }
        if !KNOWN.contains(&key.as_str()) && !OWN.contains(&key.as_str()) {
            continue;
        }
        let alone = serde_json::Map::from_iter([(key.clone(), value.clone())]);
        match serde_json::from_value::<ServerEntry>(alone.into()) {
            Ok(_) => drop(known.insert(key, value)),
            Err(error) => {
                problems.push((offset(text, raw), format!("`{key}`: {}", json_problem(&error))));
            }
        }
    }
    serde_json::from_value(known.into()).ok()
}

/// Keys of ours that a host's file may have as well.
const OWN: [&str; 14] = [
    "result_bytes",
    "auth",
    "isolation",
    "instances",
    "idle_seconds",
    "timeout_seconds",
    "connect_seconds",
    "answer_seconds",
    "expose",
    "rename",
    "approve",
    "trust_annotations",
    "rerun",
    "pins",
];

/// Members of an object, in order, with repeated ones.
struct Members<'a>(Entries<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// Position of a value in the text that it borrows from.
fn offset(text: &str, value: &RawValue) -> usize {
    value.get().as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

fn locate(text: &str, at: usize, problem: &str) -> String {
    let (line, column) = line_and_column(text, at);
    format!("line {line}, column {column}: {problem}")
}

fn failure(path: &Path, problems: &[String]) -> anyhow::Error {
    let lines = problems.iter().flat_map(|problem| problem.lines());
    let lines: Vec<_> = lines.map(|line| format!("{}: {line}", path.display())).collect();
    Failure::new(Exit::Usage, lines.join("\n")).into()
}

#[cfg(test)]
mod tests {
    use super::GatewayFile;

    #[test]
    fn servers_of_other_hosts_are_read_in_order() {
        let text = r#"{"theme": "dark", "mcpServers": {
            "zeta": {"command": "npx", "args": ["-y", "it"], "type": "stdio", "alwaysAllow": []},
            "off": {"command": "x", "disabled": true},
            "alpha": {"httpUrl": "https://h/mcp", "headers": {"X": "${KEY}"}, "timeout": 5}
        }}"#;
        let file = GatewayFile::parse(text.to_owned(), |_| Some("secret".to_owned())).unwrap();
        let names: Vec<_> = file.servers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["zeta", "alpha"]);
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let text = "{\n \"mcpServers\": {\n  \"a\": {\"command\": 7,\n   \"args\": \"x\"},\n  \"b\": {},\n  \
                    \"c\": {\"command\": \"${NONE}\"},\n  \"d\": 1,\n  \"a\": {\"url\": \"http://h\"}\n }\n}";
        let problems = GatewayFile::parse(text.to_owned(), |_| None).unwrap().messages();
        let expected = [
            ("line 3, column 20", "`command`"),
            ("line 4, column 12", "`args`"),
            ("line 5", "set either `url` or `command`"),
            ("line 6", "NONE"),
            ("line 7", "must be an object"),
            ("line 8", "defined twice"),
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, (place, what)) in problems.iter().zip(expected) {
            assert!(problem.contains(place) && problem.contains(what), "{problem}");
        }
        for (text, problem) in [
            ("{", "line 1, column 1"),
            ("{}", "no object `mcpServers`"),
            ("", "no object `mcpServers`"),
            (" \n", "no object `mcpServers`"),
            ("[]", "no object `mcpServers`"),
            ("null", "no object `mcpServers`"),
            ("{\n\"mcpServers\": []}", "line 2"),
            ("{\"mcpServers\": {\"a\" 1}}", "line 1"),
        ] {
            let found = GatewayFile::parse(text.to_owned(), |_| None).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
