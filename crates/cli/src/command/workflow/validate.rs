//! `mcp-flow workflow validate`: every problem of a file, as compilers write them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::workflow::{Problem, check_file, files_in};

use crate::show::print;

pub(super) fn run(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let mut usable = true;
    for file in files {
        match with_folders(file) {
            Ok(files) if files.is_empty() => {
                usable = false;
                print(&format!("{}: no workflow file is in this directory", file.display()))?;
            }
            Ok(files) => {
                for file in &files {
                    usable &= check(file)?;
                }
            }
            Err(error) => {
                usable = false;
                print(&format!("{}: {error}", file.display()))?;
            }
        }
    }
    Ok(if usable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file, or all files of a directory.
fn with_folders(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if path.is_dir() { files_in(path) } else { Ok(vec![path.to_owned()]) }
}

/// Tells what is wrong with a file; whether it can be used.
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
