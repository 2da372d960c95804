//! Entry of a server in the MCP registry: `server.json`.

use std::path::Path;

use serde_json::{Map, Value, json};
use url::Url;

use super::project::Project;
use super::usage;

/// Entry of a server, with the package that the bundle is.
#[derive(Debug)]
pub(super) struct RegistryEntry {
    entry: Map<String, Value>,
    url: String,
}

impl RegistryEntry {
    /// Completes the entry of a project; none if the project has no name in the registry.
    pub(super) fn new(
        project: &Project,
        url: Option<&str>,
        bundle: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let Some(name) = &project.registry_name else { return Ok(None) };
        check_name(name)?;
        let length = project.description.chars().count();
        if length > MAX_DESCRIPTION {
            return Err(usage(format!(
                "the description has {length} characters, and the registry allows \
                 {MAX_DESCRIPTION}; set a shorter one in server.json, or pass --description"
            )));
        }
        let file = bundle.file_name().unwrap_or_default().to_string_lossy();
        let url = match url {
            Some(url) => checked_url(url)?,
            None => default_url(project, name, &file),
        };
        let mut entry = Map::new();
        entry.insert("$schema".to_owned(), SCHEMA.into());
        entry.insert("name".to_owned(), name.clone().into());
        entry.insert("description".to_owned(), project.description.clone().into());
        if let Some(repository) = repository(project) {
            entry.insert("repository".to_owned(), repository);
        }
        for (member, value) in &project.registry_entry {
            entry.entry(member.clone()).or_insert_with(|| value.clone());
        }
        entry.insert("version".to_owned(), project.version.clone().into());
        Ok(Some(Self { entry, url }))
    }

    /// Address of the bundle.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Adds the bundle by its SHA-256 digest, in place of an earlier one; other packages stay.
    pub(super) fn add_package(&mut self, digest: &str) {
        let package = json!({
            "registryType": "mcpb",
            "identifier": self.url,
            "fileSha256": digest,
            "transport": {"type": "stdio"},
        });
        let others = self.entry.get("packages").and_then(Value::as_array);
        let others = others.into_iter().flatten().filter(|one| one["registryType"] != "mcpb");
        let packages: Vec<Value> = others.cloned().chain([package]).collect();
        self.entry.insert("packages".to_owned(), packages.into());
    }

    pub(super) fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.entry.clone()))
    }
}

/// Rejects what is no name in reverse-DNS notation.
fn check_name(name: &str) -> anyhow::Result<()> {
    let of = |text: &str, marks: &[u8]| {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || marks.contains(&byte);
        let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        text.bytes().all(is_valid) && is_end(text.bytes().next()) && is_end(text.bytes().last())
    };
    match name.split_once('/') {
        Some((space, server))
            if name.len() <= 200
                && of(space, b".-")
                && space.contains('.')
                && !space.contains("..")
                && of(server, b"._-") =>
        {
            Ok(())
        }
        _ => Err(usage(format!(
            "invalid name {name:?}: the registry knows servers by a reverse domain name and a name, \
             such as io.github.you/greeter"
        ))),
    }
}

fn checked_url(text: &str) -> anyhow::Result<String> {
    match Url::parse(text) {
        Ok(url) if url.scheme() == "https" && url.has_host() => Ok(text.to_owned()),
        _ => Err(usage(format!("--url {text:?} is not an https address"))),
    }
}

/// Address at which the bundle is expected: a release of the repository, or the domain of the name.
fn default_url(project: &Project, name: &str, file: &str) -> String {
    let release = |repository: &str| {
        let repository = repository.trim_end_matches('/').trim_end_matches(".git");
        format!("{repository}/releases/download/v{}/{file}", project.version)
    };
    if let Some(repository) = &project.repository
        && repository.starts_with("https://github.com/")
    {
        return release(repository);
    }
    let (space, server) = name.split_once('/').unwrap_or((name, name));
    match space.strip_prefix("io.github.") {
        Some(owner) => release(&format!("https://github.com/{owner}/{server}")),
        None => {
            let labels: Vec<_> = space.rsplit('.').collect();
            format!("https://{}/{file}", labels.join("."))
        }
    }
}

/// The repository as the registry has it, if it is on a service the registry knows.
fn repository(project: &Project) -> Option<Value> {
    let url = project.repository.as_ref()?;
    let host = Url::parse(url).ok()?.host_str()?.to_owned();
    let source = match host.as_str() {
        "github.com" => "github",
        "gitlab.com" => "gitlab",
        _ => return None,
    };
    // What the project says of it stays.
    let mut repository = project.registry_entry.get("repository").cloned().unwrap_or(json!({}));
    repository["url"] = url.clone().into();
    if repository["source"].is_null() {
        repository["source"] = source.into();
    }
    Some(repository)
}

/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 100;

const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

#[cfg(test)]
mod tests {
    use super::{check_name, checked_url};

    #[test]
    fn names_are_in_reverse_dns_notation() {
        for name in ["io.github.you/greeter", "com.example/a_b.c-d", "io.example/x"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "greeter", "/", "io.example/", "io/x", "io.example/x/y", "io..a/x"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for name in ["io.example/../x", "-io.example/x", "io.example/x ", "io.example/é"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert!(check_name(&format!("io.example/{}", "x".repeat(200))).is_err());
    }

    #[test]
    fn bundles_are_downloaded_by_https() {
        assert!(checked_url("https://example.com/x.mcpb").is_ok());
        for url in ["http://example.com/x.mcpb", "x.mcpb", "https://", "file:///x"] {
            assert!(checked_url(url).is_err(), "{url}");
        }
    }
}
