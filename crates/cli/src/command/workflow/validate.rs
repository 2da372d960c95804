//! `mcp-flow workflow validate`: prints all problems of files, in the format of compilers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::workflow::{Problem, check_file, files_in};

use crate::terminal::output::print;

pub(super) fn run(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut are_valid = true;
    for file in files {
        match expand_directory(file) {
            Ok(files) if files.is_empty() => {
                are_valid = false;
                print(&format!("{}: no workflow files in this directory", file.display()))?;
            }
            Ok(files) => {
                for file in &files {
                    are_valid &= check(file)?;
                }
            }
            Err(error) => {
                are_valid = false;
                print(&format!("{}: {error}", file.display()))?;
            }
        }
    }
    Ok(if are_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Expands a directory to its workflow files.
fn expand_directory(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if path.is_dir() { files_in(path) } else { Ok(vec![path.to_owned()]) }
}

/// Prints the problems of a file; returns whether it is valid.
fn check(file: &Path) -> anyhow::Result<bool> {
    match check_file(file) {
        Ok(problems) => {
            print(&report(file, &problems))?;
            Ok(!problems.iter().any(Problem::is_error))
        }
        Err(error) => {
            print(&format!("{}: {error}", file.display()))?;
            Ok(false)
        }
    }
}

/// Lists the problems of a file, one per line.
pub(crate) fn report(file: &Path, problems: &[Problem]) -> String {
    if problems.is_empty() {
        return format!("{}: valid", file.display());
    }
    let lines = problems.iter().map(|problem| {
        let kind = if problem.is_error() { "error" } else { "warning" };
        let (line, column) = (problem.position.line, problem.position.column);
        format!("{}:{line}:{column}: {kind}: {}", file.display(), problem.message)
    });
    lines.collect::<Vec<_>>().join("\n")
}
