//! `mcp-flow workflow new`: creates a workflow file from a template.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::workflow::is_identifier;

use crate::exit::{Exit, Failure};
use crate::terminal::output::print;

pub(super) fn run(id: &str, output: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    if !is_identifier(id) {
        let message =
            format!("invalid id {id:?}; use 3 to 64 lowercase letters, digits and hyphens");
        return Err(Failure::new(Exit::Usage, message).into());
    }
    let path = output.unwrap_or_else(|| PathBuf::from("workflows").join(format!("{id}.yaml")));
    create_file(&path, &TEMPLATE.replace("NEW-ID", id))?;
    print(&format!("Created {0}. Check it with: mcp-flow workflow validate {0}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Creates a file with its directory. Never overwrites a file.
pub(crate) fn create_file(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// Valid workflow that shows the features.
const TEMPLATE: &str = include_str!("template.yaml");

#[cfg(test)]
mod tests {
    use mcp_flow::workflow::{Format, Reading};

    #[test]
    fn the_template_is_valid() {
        let text = super::TEMPLATE.replace("NEW-ID", "my-own");
        let reading = Reading::of(&text, Format::Yaml, "general");
        assert_eq!(reading.problems, []);
        assert_eq!(&*reading.workflow.unwrap().id, "my-own");
    }
}
