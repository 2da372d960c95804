//! `mcp-flow workflow run` and `resume`: a person goes through a workflow, by the tools an agent
//! would use. Whoever leaves in the middle finds the run later as it was left.

use std::process::ExitCode;

use mcp_flow::session::prompt::Prompt;
use serde_json::{Map, Value, json};

use crate::ask::Asker;
use crate::ask::question::Question;
use crate::conversation::{Resumption, Talk};
use crate::exit::{Exit, Failure};
use crate::meter::Meter;
use crate::place::Place;
use crate::show::{neutral, print};

/// Begins a run; `again` is the command that takes it up again.
pub(super) async fn start(
    place: &Place,
    again: String,
    id: &str,
    context: &[String],
) -> anyhow::Result<ExitCode> {
    let context = read_context(context.iter().map(String::as_str))?;
    let arguments = json!({"workflowId": id, "context": context});
    let told = place.tool(None, "workflow_start", arguments).await?;
    brief(&told["workflow"])?;
    go_on(place, again, told).await
}

/// Goes on with a run.
pub(super) async fn resume(place: &Place, again: String, id: &str) -> anyhow::Result<ExitCode> {
    let told = status(place, id).await?;
    for done in told["done"].as_array().into_iter().flatten() {
        print(&format!("Done: {}", text(&done["title"])))?;
    }
    go_on(place, again, told).await
}

async fn go_on(place: &Place, again: String, mut told: Value) -> anyhow::Result<ExitCode> {
    let talk = Talk::new(Asker::default(), Meter::new(), Resumption::By(again));
    let id = told["runId"].as_str().unwrap_or_default().to_owned();
    loop {
        told = match told["status"].as_str() {
            Some("step" | "refused") => {
                show(&told)?;
                let mut arguments = given(&talk, &id, &told["step"]).await?;
                arguments["token"] = told["token"].take();
                place.tool(Some(&id), "workflow_continue", arguments).await?
            }
            Some("waiting_for_confirmation") => {
                let message = told["question"].as_str().unwrap_or_default();
                // Silence is no answer: whoever says nothing finds the question later.
                let rules = json!({"required": true});
                let agrees = ask(&talk, &id, "agree", "confirm", message, rules).await?;
                let response = json!({"value": agrees, "turnId": told["turnId"]});
                let params = json!({"response": response});
                place.call(&id, "interaction.respond", params).await?;
                status(place, &id).await?
            }
            Some("working") => {
                place.call(&id, "interaction.continue", json!({})).await?;
                status(place, &id).await?
            }
            Some("complete") => {
                print(&text(&told["summary"]))?;
                return Ok(ExitCode::SUCCESS);
            }
            other => {
                let (status, reason) = (other.unwrap_or("lost"), text(&told["reason"]));
                let message = format!("the run is {}: {reason}", neutral(status));
                return Err(Failure::new(Exit::Failed, message).into());
            }
        };
    }
}

/// Where a run stands.
pub(super) async fn status(place: &Place, id: &str) -> anyhow::Result<Value> {
    place.tool(Some(id), "workflow_status", json!({"runId": id})).await
}

/// Shows what is to be known before the first step.
fn brief(workflow: &Value) -> anyhow::Result<()> {
    for (title, name) in [
        ("Before you begin, see that this is so:", "preconditions"),
        ("Find out:", "clarificationPrompts"),
    ] {
        let lines = workflow[name].as_array().into_iter().flatten();
        let lines: Vec<_> = lines.map(|line| format!("- {}", text(line))).collect();
        if !lines.is_empty() {
            print(&format!("{title}\n{}", lines.join("\n")))?;
        }
    }
    Ok(())
}

/// Shows what is to be done, and what was wrong with the last try.
fn show(told: &Value) -> anyhow::Result<()> {
    let wrong = [&told["issues"], &told["suggestions"]];
    for line in wrong.into_iter().filter_map(Value::as_array).flatten() {
        print(&format!("! {}", text(line)))?;
    }
    let step = &told["step"];
    print(&format!("\n# {}\n\n{}\n", text(&step["title"]), text(&step["prompt"])))
}

/// What the person gives for a step.
async fn given(talk: &Talk, id: &str, step: &Value) -> anyhow::Result<Value> {
    let mut given = json!({});
    let only_context = step["asksFor"] == "context";
    if !only_context {
        let rules = json!({"required": true});
        given["output"] = ask(talk, id, "output", "text", "What came of it?", rules).await?;
    }
    // How a loop goes on may depend on what was found out in this round.
    if only_context || step.get("round").is_some() {
        let rules = json!({"pattern": VARIABLES, "required": only_context});
        let typed = ask(talk, id, "context", "text", SAY_WHAT_IS_KNOWN, rules).await?;
        let lines = typed.as_str().unwrap_or_default().lines();
        given["context"] = read_context(lines.filter(|line| !line.trim().is_empty()))?.into();
    }
    Ok(given)
}

async fn ask(
    talk: &Talk,
    id: &str,
    key: &str,
    kind: &str,
    message: &str,
    rules: Value,
) -> anyhow::Result<Value> {
    let prompt = json!({"type": kind, "message": message, "validation": rules});
    let prompt: Prompt = serde_json::from_value(prompt)?;
    talk.answer(id, Question::of_prompt(key, prompt)).await
}

/// `name=value`, where the value is JSON, or plain text if it is none.
fn read_context<'a>(pairs: impl Iterator<Item = &'a str>) -> anyhow::Result<Map<String, Value>> {
    let read = |pair: &str| match pair.trim().split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        }
        _ => {
            let told = format!("{pair:?} says nothing; write name=value");
            Err(Failure::new(Exit::Usage, told).into())
        }
    };
    pairs.map(read).collect()
}

/// A text of the server's, made harmless.
fn text(value: &Value) -> String {
    neutral(value.as_str().unwrap_or_default())
}

const SAY_WHAT_IS_KNOWN: &str = "What is known now? name=value, one a line, or nothing";

/// Lines that each say something, or nothing.
const VARIABLES: &str = r"^\s*([A-Za-z_][A-Za-z0-9_.-]*=[^\n]*\s*)*$";
