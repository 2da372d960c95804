//! `mcp-flow workflow run`: a person goes through a workflow.

use std::collections::HashSet;
use std::io::BufRead;
use std::process::ExitCode;

use mcp_flow::workflow::next::{self, Next, needs_confirmation};
use mcp_flow::workflow::{Context, Library, Task, Verdict};
use serde_json::Value;

use super::find;
use crate::exit::{Exit, Failure};
use crate::show::print;

pub(super) fn run(library: &Library, id: &str, context: &[String]) -> anyhow::Result<ExitCode> {
    let workflow = find(library, id)?;
    let mut context = read_context(context)?;
    let mut input = std::io::stdin().lock();
    let mut done: HashSet<Box<str>> = HashSet::new();
    print(&format!("{}\n{}\n", workflow.name, workflow.description))?;
    loop {
        let completed: HashSet<&str> = done.iter().map(|id| &**id).collect();
        match next::next(&workflow, &completed, &context)? {
            Next::Complete | Next::Blocked(_) => {
                print("All steps that apply are done.")?;
                return Ok(ExitCode::SUCCESS);
            }
            Next::Task { task, round } => {
                if let Some(round) = &round {
                    if round.is_new {
                        for task in workflow.body(round.looped) {
                            done.remove(&task.id);
                        }
                    }
                    context = next::in_round(&context, Some(round));
                }
                print(&format!("# {}\n", task.title))?;
                print(&next::guidance(&workflow, task, round.as_ref(), &context))?;
                if !carry_out(task, &mut context, &mut input)? {
                    return Ok(Exit::Failed.into());
                }
                done.insert(task.id.clone());
            }
        }
    }
}

/// Has a step done; `false` if there is no more input.
fn carry_out(task: &Task, context: &mut Context, input: &mut impl BufRead) -> anyhow::Result<bool> {
    loop {
        print("\nWhat came of it? `name=value` sets a variable, a line with a dot ends it.")?;
        let Some(output) = read_output(context, input)? else { return Ok(false) };
        let verdict = Verdict::of(task.validation_criteria.as_ref(), &output, context);
        if !verdict.valid {
            print(&format!("\n{}", [verdict.issues, verdict.suggestions].concat().join("\n")))?;
            continue;
        }
        if needs_confirmation(task, context) {
            print("Do you agree to what came of this step? (y/n)")?;
            let Some(answer) = read_line(input)? else { return Ok(false) };
            if !matches!(answer.trim(), "y" | "yes") {
                continue;
            }
        }
        return Ok(true);
    }
}

/// The lines up to one with a single dot; those that set a variable are not part of the output.
fn read_output(context: &mut Context, input: &mut impl BufRead) -> anyhow::Result<Option<String>> {
    let mut lines = Vec::new();
    loop {
        let Some(line) = read_line(input)? else { return Ok(None) };
        match line.as_str() {
            "." => return Ok(Some(lines.join("\n"))),
            line => match variable(line) {
                Some((name, value)) => {
                    context.insert(name, value);
                }
                None => lines.push(line.to_owned()),
            },
        }
    }
}

fn read_line(input: &mut impl BufRead) -> anyhow::Result<Option<String>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
}

fn read_context(pairs: &[String]) -> anyhow::Result<Context> {
    let read = |pair: &String| {
        variable(pair).ok_or_else(|| {
            let told = format!("{pair:?} says nothing; write name=value");
            anyhow::Error::from(Failure::new(Exit::Usage, told))
        })
    };
    pairs.iter().map(read).collect()
}

/// `name=value`, where the value is JSON, or plain text if it is none.
fn variable(text: &str) -> Option<(String, Value)> {
    let (name, value) = text.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|one| one.is_alphanumeric() || one == '_');
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    is_name.then(|| (name.to_owned(), value))
}
