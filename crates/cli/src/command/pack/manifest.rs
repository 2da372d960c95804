//! `manifest.json` of a bundle, version 0.3.

use serde_json::{Map, Value, json};

use super::program::ServerProgram;
use super::project::Project;

/// Manifest of a bundle.
#[derive(Debug)]
pub(super) struct Manifest(Map<String, Value>);

impl Manifest {
    pub(super) fn new(project: &Project, programs: &[ServerProgram]) -> Self {
        let mut manifest = Map::new();
        let mut set = |name: &str, value: Value| {
            manifest.insert(name.to_owned(), value);
        };
        set("manifest_version", "0.3".into());
        set("name", project.name.clone().into());
        set("version", project.version.clone().into());
        set("description", project.description.clone().into());
        let mut author = json!({"name": project.author.name});
        if let Some(email) = &project.author.email {
            author["email"] = email.clone().into();
        }
        set("author", author);
        if let Some(url) = project.repository.as_ref().filter(|url| is_url(url)) {
            set("repository", json!({"type": "git", "url": url}));
        }
        if let Some(url) = project.homepage.as_ref().filter(|url| is_url(url)) {
            set("homepage", url.clone().into());
        }
        if let Some(license) = &project.license {
            set("license", license.clone().into());
        }
        set("server", server(project, programs));
        if !project.tools.is_empty() {
            set("tools", project.tools.clone().into());
        }
        let platforms: Vec<_> = programs.iter().map(|program| program.platform.name()).collect();
        set("compatibility", json!({"platforms": platforms}));
        Self(manifest)
    }

    pub(super) fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }
}

/// The command that starts the server, for each system.
fn server(project: &Project, programs: &[ServerProgram]) -> Value {
    let paths: Vec<_> = programs.iter().map(|program| program.path_in_bundle(programs)).collect();
    let (Some(first), others) = (paths.first(), programs.iter().zip(&paths).skip(1)) else {
        return Value::Null;
    };
    let mut config = json!({"command": format!("{FOLDER}/{first}"), "args": project.arguments});
    let overrides: Map<String, Value> = others
        .map(|(program, path)| {
            (program.platform.name().to_owned(), json!({"command": format!("{FOLDER}/{path}")}))
        })
        .collect();
    if !overrides.is_empty() {
        config["platform_overrides"] = overrides.into();
    }
    json!({"type": "binary", "entry_point": first, "mcp_config": config})
}

fn is_url(text: &str) -> bool {
    url::Url::parse(text).is_ok()
}

/// Directory of an installed bundle, which hosts fill in.
pub(super) const FOLDER: &str = "${__dirname}";
