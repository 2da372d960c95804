//! `mcp-flow workflow new`: creates a workflow file from a template.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
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
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    // Never overwrites a file.
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(TEMPLATE.replace("NEW-ID", id).as_bytes())?;
    print(&format!("Created {0}. Check it with: mcp-flow workflow validate {0}", path.display()))?;
    Ok(ExitCode::SUCCESS)
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
