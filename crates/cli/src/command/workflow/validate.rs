//! `mcp-flow workflow validate`: every problem of a file, as compilers write them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::workflow::{Problem, check_file};

use crate::show::print;

pub(super) fn run(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut usable = true;
    for file in files {
        match check_file(file) {
            Ok(problems) => {
                usable &= !problems.iter().any(Problem::is_error);
                print(&report(file, &problems))?;
            }
            Err(error) => {
                usable = false;
                print(&format!("{}: {error}", file.display()))?;
            }
        }
    }
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(file: &Path, problems: &[Problem]) -> String {
    if problems.is_empty() {
        return format!("{}: good", file.display());
    }
    let lines = problems.iter().map(|problem| {
        let kind = if problem.is_error() { "error" } else { "warning" };
        let (line, column) = (problem.position.line, problem.position.column);
        format!("{}:{line}:{column}: {kind}: {}", file.display(), problem.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}
