//! `mcp-flow workflow run` and `resume`: a person runs a workflow with the tools an agent uses. An
//! interrupted run can be resumed.

use std::process::ExitCode;

use mcp_flow::session::prompt::Prompt;
use serde_json::{Map, Value, json};

use crate::client::prompter::{Prompter, Resumption};
use crate::client::session_source::SessionSource;
use crate::exit::{Exit, Failure};
use crate::terminal::ask::UserInput;
use crate::terminal::ask::question::Question;
use crate::terminal::output::{print, sanitize};
use crate::terminal::progress::ProgressDisplay;

/// Starts a run; `resume` is the command to resume it.
pub(super) async fn start(
    source: &SessionSource,
    resume: String,
    id: &str,
    context: &[String],
) -> anyhow::Result<ExitCode> {
    let context = read_context(context.iter().map(String::as_str))?;
    let arguments = json!({"workflowId": id, "context": context});
    let status = source.call_tool(None, "workflow_start", arguments).await?;
    print_preconditions(&status["workflow"])?;
    run_steps(source, resume, status).await
}

/// Resumes a run.
pub(super) async fn resume(
    source: &SessionSource,
    resume: String,
    id: &str,
) -> anyhow::Result<ExitCode> {
    let status = run_status(source, id).await?;
    for done in status["done"].as_array().into_iter().flatten() {
        print(&format!("Done: {}", text(&done["title"])))?;
    }
    run_steps(source, resume, status).await
}

async fn run_steps(
    source: &SessionSource,
    resume: String,
    mut status: Value,
) -> anyhow::Result<ExitCode> {
    let resumption = Resumption::Command(resume);
    let prompter = Prompter::new(UserInput::default(), ProgressDisplay::new(), resumption);
    let id = status["runId"].as_str().unwrap_or_default().to_owned();
    loop {
        status = match status["status"].as_str() {
            Some("step" | "refused") => {
                print_step(&status)?;
                let mut arguments = ask_for_output(&prompter, &id, &status["step"]).await?;
                arguments["token"] = status["token"].take();
                source.call_tool(Some(&id), "workflow_continue", arguments).await?
            }
            Some("waiting_for_confirmation") => {
                let message = status["question"].as_str().unwrap_or_default();
                // No answer leaves the question open.
                let rules = json!({"required": true});
                let agrees = ask(&prompter, &id, "agree", "confirm", message, rules).await?;
                let response = json!({"value": agrees, "turnId": status["turnId"]});
                let params = json!({"response": response});
                source.call(&id, "interaction.respond", params).await?;
                run_status(source, &id).await?
            }
            Some("working") => {
                source.call(&id, "interaction.continue", json!({})).await?;
                run_status(source, &id).await?
            }
            Some("complete") => {
                print(&text(&status["summary"]))?;
                return Ok(ExitCode::SUCCESS);
            }
            other => {
                let (state, reason) = (other.unwrap_or("unknown"), text(&status["reason"]));
                let message = format!("the run is {}: {reason}", sanitize(state));
                return Err(Failure::new(Exit::Failed, message).into());
            }
        };
    }
}

/// Fetches the status of a run.
pub(super) async fn run_status(source: &SessionSource, id: &str) -> anyhow::Result<Value> {
    source.call_tool(Some(id), "workflow_status", json!({"runId": id})).await
}

/// Prints the preconditions and open questions of a workflow.
fn print_preconditions(workflow: &Value) -> anyhow::Result<()> {
    for (title, name) in
        [("Preconditions:", "preconditions"), ("Clarify first:", "clarificationPrompts")]
    {
        let lines = workflow[name].as_array().into_iter().flatten();
        let lines: Vec<_> = lines.map(|line| format!("- {}", text(line))).collect();
        if !lines.is_empty() {
            print(&format!("{title}\n{}", lines.join("\n")))?;
        }
    }
    Ok(())
}

/// Prints a step, and the issues with its last output.
fn print_step(status: &Value) -> anyhow::Result<()> {
    let issues = [&status["issues"], &status["suggestions"]];
    for line in issues.into_iter().filter_map(Value::as_array).flatten() {
        print(&format!("! {}", text(line)))?;
    }
    let step = &status["step"];
    print(&format!("\n# {}\n\n{}\n", text(&step["title"]), text(&step["prompt"])))
}

/// Asks for the output and context of a step.
async fn ask_for_output(prompter: &Prompter, id: &str, step: &Value) -> anyhow::Result<Value> {
    let mut arguments = json!({});
    let only_context = step["asksFor"] == "context";
    if !only_context {
        let rules = json!({"required": true});
        arguments["output"] =
            ask(prompter, id, "output", "text", "Output of this step?", rules).await?;
    }
    // The next iteration of a loop may depend on new context.
    if only_context || step.get("round").is_some() {
        let rules = json!({"pattern": VARIABLES, "required": only_context});
        let typed = ask(prompter, id, "context", "text", ASK_FOR_CONTEXT, rules).await?;
        let lines = typed.as_str().unwrap_or_default().lines();
        arguments["context"] = read_context(lines.filter(|line| !line.trim().is_empty()))?.into();
    }
    Ok(arguments)
}

async fn ask(
    prompter: &Prompter,
    id: &str,
    key: &str,
    kind: &str,
    message: &str,
    rules: Value,
) -> anyhow::Result<Value> {
    let prompt = json!({"type": kind, "message": message, "validation": rules});
    let prompt: Prompt = serde_json::from_value(prompt)?;
    prompter.answer_prompt(id, Question::of_prompt(key, prompt)).await
}

/// Parses `name=value` pairs, with values as JSON or plain text.
fn read_context<'a>(pairs: impl Iterator<Item = &'a str>) -> anyhow::Result<Map<String, Value>> {
    let read = |pair: &str| match pair.trim().split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        }
        _ => {
            let message = format!("invalid variable {pair:?}; use name=value");
            Err(Failure::new(Exit::Usage, message).into())
        }
    };
    pairs.map(read).collect()
}

/// Returns a sanitized text of the server.
fn text(value: &Value) -> String {
    sanitize(value.as_str().unwrap_or_default())
}

const ASK_FOR_CONTEXT: &str = "New context? name=value, one per line, or nothing";

/// Pattern of lines with one variable each, or of nothing.
const VARIABLES: &str = r"^\s*([A-Za-z_][A-Za-z0-9_.-]*=[^\n]*\s*)*$";
