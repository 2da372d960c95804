//! `mcp-flow tool check`: prints all problems of tool files, in the format of compilers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mcp_flow::workflow::Problem;
use mcp_flow_declarative::document::{FoundFile, nearest};
use mcp_flow_declarative::{ToolReading, check_tool_files, tool_files_in};

use crate::exit::{Exit, Failure};
use crate::server::tool_files::launcher;
use crate::terminal::output::{print, sanitize};

pub(super) fn run(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let checked = problems_of(files)?;
    for (file, problems) in &checked {
        print(&report(file, problems))?;
    }
    let is_valid = !checked.iter().any(|(_, problems)| problems.iter().any(Problem::is_error));
    Ok(if is_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks files, and those in directories.
pub(in crate::command) fn problems_of(
    files: &[PathBuf],
) -> anyhow::Result<Vec<(PathBuf, Vec<Problem>)>> {
    let mut paths = Vec::new();
    let mut checked = Vec::new();
    for file in files {
        match tool_files_in(file) {
            Ok(found) if found.is_empty() => {
                let problem = Problem::of_file("no tool files in this directory");
                checked.push((file.clone(), vec![problem]));
            }
            Ok(found) => paths.extend(found),
            Err(error) => checked.push((file.clone(), vec![Problem::of_file(error.to_string())])),
        }
    }
    checked.extend(check_tool_files(&paths, launcher().as_ref()));
    Ok(checked)
}

/// Prints the problems of files with errors; returns whether there are none.
pub(in crate::command) fn are_valid(checked: &[(PathBuf, Vec<Problem>)]) -> anyhow::Result<bool> {
    let mut are_valid = true;
    for (file, problems) in checked {
        if problems.iter().any(Problem::is_error) {
            are_valid = false;
            print(&report(file, problems))?;
        }
    }
    Ok(are_valid)
}

/// Finds a tool in a file or directory; returns its declared name. The error lists others.
pub(super) fn find_tool(file: &Path, name: &str) -> anyhow::Result<String> {
    let paths = tool_files_in(file)?;
    let readings = paths.iter().map(|path| ToolReading::of_file(&FoundFile::named(path)));
    let files: Vec<_> = readings.filter_map(|reading| reading.file).collect();
    let names: Vec<_> =
        files.iter().flat_map(|file| &file.tools).map(|tool| tool.name().to_owned()).collect();
    let alias = |name: &str| name.replace('.', "_");
    if let Some(found) = names.iter().find(|known| alias(known) == alias(name)) {
        return Ok(found.clone());
    }
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it has {}", names.join(", ")),
    };
    let message = format!("{} has no tool `{}`; {hint}", file.display(), sanitize(name));
    Err(Failure::new(Exit::Usage, message).into())
}

/// Prints what a tool lacks on this system. Returns whether it lacks anything.
pub(super) fn print_missing(
    name: &str,
    checked: &[(PathBuf, Vec<Problem>)],
) -> anyhow::Result<bool> {
    let mut lacks = false;
    let start = format!("{name}: ");
    for (file, problems) in checked {
        let missing = problems.iter().filter(|problem| problem.message.starts_with(&start));
        let missing: Vec<_> = missing.cloned().collect();
        if !missing.is_empty() {
            lacks = true;
            print(&report(file, &missing))?;
        }
    }
    Ok(lacks)
}

fn report(file: &Path, problems: &[Problem]) -> String {
    if problems.is_empty() {
        return format!("{}: valid", file.display());
    }
    super::super::workflow::report(file, problems)
}
