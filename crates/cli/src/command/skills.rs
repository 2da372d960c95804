//! `mcp-flow skills`: the skills of a server, and the verified files of one.

use std::process::ExitCode;

use mcp_flow::client::Client;
use mcp_flow::client::host::DenyAll;
use mcp_flow::skills::{ClientSkills, SkillEntry, SkillsError};
use serde_json::json;

use crate::client::connect::ConnectOptions;
use crate::client::error::explain;
use crate::exit::{Exit, Failure};
use crate::terminal::output::{self, Format, sanitize, table};

/// List the skills of a server, or show a verified file of one
///
/// With a URI, the SKILL.md of that skill is shown, or the file at PATH below its directory. Digest,
/// size and frontmatter are verified against the server's listing first.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcp-flow skills [OPTIONS] TARGET [URI [PATH]]\n       mcp-flow skills [OPTIONS] [URI [PATH]] -- COMMAND..."
)]
pub(crate) struct Skills {
    /// Server (address or configured name), URI of a skill, and path of one of its files
    #[arg(value_name = "TARGET [URI [PATH]]")]
    words: Vec<String>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Skills {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (target, rest) = self.connect.find_target(&self.words)?;
        let (uri, path) = match rest {
            [] => (None, None),
            [uri] => (Some(uri), None),
            [uri, path] => (Some(uri), Some(path)),
            [_, _, rest @ ..] => {
                return super::reject_extra_arguments(rest).map(|()| ExitCode::FAILURE);
            }
        };
        let format = self.connect.format;
        self.connect.with_client(&target, DenyAll, async |client| {
            match uri {
                None => list(client, format).await?,
                Some(uri) => show(client, uri, path.map(String::as_str), format).await?,
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn list(client: &Client, format: Format) -> anyhow::Result<()> {
    let skills = client.skills().await.map_err(explain_skills)?;
    let row = |skill: &SkillEntry| {
        let files =
            skill.files.as_ref().map_or("generated".to_owned(), |files| files.len().to_string());
        vec![skill.uri.clone(), files, skill.description().to_owned()]
    };
    match format {
        Format::Json => output::print_json(&json!({"skills": skills})),
        Format::Table if skills.is_empty() => output::print("The server lists no skills."),
        _ => {
            let rows: Vec<_> = skills.iter().map(row).collect();
            output::print(&table::write(&["uri", "files", "description"], &rows, format))
        }
    }
}

async fn show(
    client: &Client,
    uri: &str,
    path: Option<&str>,
    format: Format,
) -> anyhow::Result<()> {
    let entry = client.skill(uri).await.map_err(explain_skills)?;
    let skill = client.load_skill(entry).await.map_err(explain_skills)?;
    let text = match path {
        None => skill.text().to_owned(),
        Some(path) => {
            let bytes = skill.read(path).await.map_err(explain_skills)?;
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    match format {
        Format::Json => output::print_json(&json!({"skill": skill.entry(), "text": text})),
        _ => output::print(&sanitize(&text)),
    }
}

/// Explains an error about skills. A server whose files are not what it promised breaks the
/// protocol.
fn explain_skills(error: SkillsError) -> anyhow::Error {
    match error {
        SkillsError::Client(error) => explain(error),
        SkillsError::NotOffered => Failure::new(Exit::Failed, error.to_string()).into(),
        error => Failure::new(Exit::Protocol, sanitize(&error.to_string())).into(),
    }
}
