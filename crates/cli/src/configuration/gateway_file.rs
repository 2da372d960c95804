//! Files of other MCP hosts whose servers are all served: `mcpServers` in JSON, or our own TOML.
//!
//! Every problem is reported with its line. Keys that only the host knows are ignored.

mod entry;

use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json_comments::blank_comments;
use super::problems::line_and_column;
use super::servers::{BYTE_ORDER_MARK, EntryProblem, ServerEntry};
use super::{File, json_problem};
use crate::exit::{Exit, Failure};
use entry::{EntryReader, editor_variable};

/// Servers of a file, in its order.
#[derive(Debug)]
pub(crate) struct GatewayFile {
    /// Servers by name. Those whose entries have problems are here as well, as far as they can be read,
    /// so that all their problems are found.
    pub(crate) servers: Vec<(String, ServerEntry)>,
    /// Names of all servers, with the places of their entries in the text.
    names: Vec<(String, Range<usize>)>,
    /// Problems, with their positions.
    problems: Vec<(usize, String)>,
    /// The text, without comments if it is JSON.
    text: String,
    path: PathBuf,
}

impl GatewayFile {
    /// Reads a file. Problems with single entries are kept, to be reported together with
    /// [those that are found later](Self::add_problem).
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        let parsed = match String::from_utf8(bytes) {
            Ok(text) => Self::parse(&text, path),
            Err(_) => Err("the file is not in UTF-8".to_owned()),
        };
        parsed.map_err(|problem| failure(path, &[problem]))
    }

    /// Names of all servers.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|(name, _)| name.as_str())
    }

    /// Value of a variable in an entry: one of the environment, or one that editors define.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        editor_variable(&self.path, name).or_else(|| std::env::var(name).ok())
    }

    /// Adds a problem with an entry.
    pub(crate) fn add_problem(&mut self, name: &str, problem: &EntryProblem) {
        let place = self.names.iter().rfind(|(known, _)| known == name);
        let place = place.map(|(_, place)| place.clone()).unwrap_or_default();
        let at = place.start + find_key(&self.text[place], &problem.path);
        self.problems.push((at, format!("server {name:?}: {}", problem.text)));
    }

    /// Describes the place of an entry, with the file; `None` if there is none with this name.
    pub(crate) fn place(&self, name: &str) -> Option<String> {
        let (_, place) = self.names.iter().find(|(known, _)| known == name)?;
        let (line, column) = line_and_column(&self.text, place.start);
        Some(format!("{}: line {line}, column {column}", self.path.display()))
    }

    /// Fails with all problems, if there are any.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let problems = self.messages();
        if problems.is_empty() { Ok(()) } else { Err(failure(&self.path, &problems)) }
    }

    /// Problems in the order of the text, with line and column.
    fn messages(&self) -> Vec<String> {
        let mut problems: Vec<_> = self.problems.iter().collect();
        problems.sort_by_key(|(at, _)| *at);
        problems.iter().map(|(at, problem)| locate(&self.text, *at, problem)).collect()
    }

    fn parse(text: &str, path: &Path) -> Result<Self, String> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let is_object = text.trim_start().starts_with(['{', '/']);
        // Neither is TOML that anybody means.
        if text.trim().is_empty() || (!is_object && serde_json::from_str::<Value>(text).is_ok()) {
            return Err(NO_SERVERS.to_owned());
        }
        let path = path.to_owned();
        if !is_object {
            let servers: Vec<_> = File::parse(text)?.servers.into_iter().collect();
            let place = |name: &str| {
                let header = text.find(&format!("[servers.{name}]"));
                let at = header.or_else(|| text.find(name)).unwrap_or_default();
                at..at
            };
            let names = servers.iter().map(|(name, _)| (name.clone(), place(name))).collect();
            return Ok(Self { names, servers, problems: Vec::new(), text: text.to_owned(), path });
        }
        let text = blank_comments(text);
        let (mut servers, mut names, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        let (section, found) = entries(&text)?;
        for (name, raw) in found {
            let at = offset(&text, raw);
            let mut reader = EntryReader { text: &text, path: &path, problems: Vec::new() };
            let is_known = names.iter().any(|(known, _)| *known == name);
            if is_known {
                reader.problems.push((at, "it is defined twice".to_owned()));
            }
            let entry = reader.read(&name, raw);
            if entry.is_none() && reader.problems.is_empty() {
                // It is disabled.
                continue;
            }
            let own = reader.problems.into_iter();
            problems.extend(own.map(|(at, what)| (at, format!("`{section}.{name}`: {what}"))));
            servers.extend(entry.map(|entry| (name.clone(), entry)));
            if !is_known {
                names.push((name, at..at + raw.get().len()));
            }
        }
        Ok(Self { servers, names, problems, text, path })
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

/// Position of the value at a path of keys in an object, as far as the path exists.
fn find_key(text: &str, path: &[String]) -> usize {
    let mut rest = text;
    for key in path {
        let found = match serde_json::from_str(rest) {
            Ok(Members(members)) => members.into_iter().rfind(|(name, _)| name == key),
            Err(_) => {
                let elements: Vec<&RawValue> = serde_json::from_str(rest).unwrap_or_default();
                let element =
                    key.parse().ok().and_then(|index: usize| elements.get(index).copied());
                element.map(|element| (key.clone(), element))
            }
        };
        let Some((_, value)) = found else { break };
        rest = value.get();
    }
    rest.as_ptr().addr().saturating_sub(text.as_ptr().addr())
}

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
    use std::path::Path;

    use super::GatewayFile;
    use crate::client::target::Target;

    fn parse(text: &str) -> Result<GatewayFile, String> {
        GatewayFile::parse(text, Path::new("/project/.vscode/mcp.json"))
    }

    /// All problems, as those who serve the file find them.
    fn problems(text: &str) -> Vec<String> {
        let mut file = parse(text).unwrap();
        for (name, entry) in file.servers.clone() {
            let found = entry.target(|name| file.variable(name)).err();
            found.into_iter().flatten().for_each(|problem| file.add_problem(&name, &problem));
        }
        file.messages()
    }

    #[test]
    fn servers_of_other_hosts_are_read_in_order() {
        let text = r#"{"theme": "dark", "mcpServers": {
            "zeta": {"command": "npx", "args": ["-y", "it"], "type": "stdio", "alwaysAllow": []},
            "off": {"command": "x", "disabled": true},
            "alpha": {"httpUrl": "https://h/mcp", "headers": {"X": "${KEY}"}, "timeout": 5}
        }}"#;
        let file = parse(text).unwrap();
        let names: Vec<_> = file.servers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["zeta", "alpha"]);
        assert!(file.messages().is_empty());
    }

    /// Files as hosts and editors write them: with comments, trailing commas, a byte order mark, null,
    /// numbers and variables of the editor.
    #[test]
    fn files_of_hosts_are_read_as_they_are() {
        let spawn = |file: &GatewayFile| match file.servers[0].1.target(|name| file.variable(name))
        {
            Ok(Target::Command(spawn)) => spawn,
            other => panic!("{other:?}"),
        };
        for text in [
            "\u{feff}{\"mcpServers\": {\"a\": {\"command\": \"true\"}}}",
            "// mine\n{\"mcpServers\": /* all */ {\"a\": {\"command\": \"true\",},},}",
            r#"{"mcpServers": {"a": {"command": "true", "env": null, "args": null, "url": null}}}"#,
        ] {
            let found = spawn(&parse(text).unwrap());
            assert_eq!(found.program, "true", "{text}");
        }
        let text = r#"{"servers": {"a": {"command": "true", "cwd": "${workspaceFolder}/x",
            "env": {"PORT": 8080, "ON": true, "NONE": null}, "args": ["--port", 1.5]}}}"#;
        let found = spawn(&parse(text).unwrap());
        assert_eq!(found.folder.as_deref(), Some("/project/x"));
        assert_eq!(found.arguments, ["--port", "1.5"]);
        let variables: Vec<_> = found.environment.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(variables, [("ON", "true"), ("PORT", "8080")]);
    }

    #[test]
    fn variables_come_from_a_file_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        std::fs::write(folder.path().join(".env"), "# c\nA=1\nexport B = \"x y\"\nC='z'\n\nD\n")
            .unwrap();
        for file in [".env", "${workspaceFolder}/.env"] {
            let text = format!(
                r#"{{"servers": {{"a": {{"command": "true", "envFile": "{file}", "env": {{"A": "2"}}}}}}}}"#
            );
            let file = GatewayFile::parse(&text, &path).unwrap();
            let Ok(Target::Command(spawn)) = file.servers[0].1.target(|_| None) else { panic!() };
            let variables: Vec<_> = spawn.environment.iter().map(|(a, b)| (&**a, &**b)).collect();
            assert_eq!(variables, [("A", "2"), ("B", "x y"), ("C", "z")]);
        }
        let text = r#"{"servers": {"a": {"command": "true", "envFile": "none"}}}"#;
        let problems = GatewayFile::parse(text, &path).unwrap().messages();
        assert!(
            problems.len() == 1 && problems[0].contains("`envFile`: cannot read"),
            "{problems:?}"
        );
    }

    #[test]
    fn all_problems_are_reported_with_their_lines() {
        let text = "{\n \"mcpServers\": {\n  \"a\": {\"command\": 7,\n   \"args\": \"x\",\n   \"env\": {\"X\":\n    \"${NO1}\"}},\n  \"b\": {},\n  \
                    \"c\": {\"command\": \"${NO2}\",\n  \"args\": [\"1\",\n  \"${NO3}\"]},\n  \"d\": 1,\n  \"a\": {\"url\": \"http://h\"},\n \
                    \"e\": {\"command\": \"${input:key}\"}\n }\n}";
        let problems = problems(text);
        let expected = [
            ("line 3, column 20", "`command`"),
            ("line 4, column 12", "`args`"),
            ("line 6, column 5", "NO1"),
            ("line 7", "set either `url` or `command`"),
            ("line 8", "NO2"),
            ("line 10", "NO3"),
            ("line 11", "must be an object"),
            ("line 12", "defined twice"),
            ("line 13", "only the host"),
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
            ("// {\n", "line 2"),
        ] {
            let found = parse(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
