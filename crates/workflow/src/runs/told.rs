//! What an agent is told of its runs.

use mcp_flow_engine::{EngineError, Standing, View};
use mcp_flow_flow::event::Ending;
use mcp_flow_flow::prompt::PromptType;
use mcp_flow_flow::{Owner, Session, SessionId};
use mcp_flow_server::tool::Failure;
use serde_json::{Value, json};

use super::record::{Record, Shown};
use super::token::Token;
use super::tools::{Desk, is_confirmation};

impl Desk {
    /// Where a run stands.
    pub(super) fn standing(&self, owner: &Owner, view: &View) -> Value {
        match &view.standing {
            Standing::Waiting(open) if open.prompt.kind == PromptType::Confirm => json!({
                "runId": view.id,
                "status": "waiting_for_confirmation",
                "message": format!(
                    "A person has to confirm this step, and you cannot. {} Then call \
                     workflow_status.",
                    self.runs.answers.replace("{run}", &view.id.to_string())
                ),
                "question": open.prompt.message,
                "turnId": open.turn,
            }),
            Standing::Waiting(open) => {
                self.step(owner, view.id, open.turn, open.prompt.ui.as_ref())
            }
            Standing::Working(_) => json!({"runId": view.id, "status": "working"}),
            Standing::Ended(ended) => match &ended.ending {
                Ending::Completed { summary, .. } => json!({
                    "runId": view.id, "status": "complete", "isComplete": true, "summary": summary,
                }),
                Ending::Cancelled { reason } => {
                    json!({"runId": view.id, "status": "cancelled", "reason": reason})
                }
                Ending::Expired(_) => json!({"runId": view.id, "status": "expired"}),
                Ending::Failed(fault) => {
                    json!({"runId": view.id, "status": "failed", "reason": fault.message})
                }
            },
        }
    }

    /// A step to be done, and the token to go on with.
    pub(super) fn step(
        &self,
        owner: &Owner,
        run: SessionId,
        turn: u32,
        hints: Option<&Value>,
    ) -> Value {
        let token = Token { run, turn }.seal(&self.runs.keys, owner);
        let mut told = json!({"runId": run, "status": "step", "isComplete": false, "token": token});
        if let Some(shown) = Shown::of(hints) {
            let asks_for = if shown.is_about_context { "context" } else { "output" };
            told["step"] = json!({
                "id": shown.step_id, "title": shown.title, "prompt": shown.prompt, "asksFor": asks_for,
            });
            if let Some(round) = shown.round {
                told["step"]["round"] = round.into();
            }
            if let Some(refused) = shown.refused {
                told["status"] = "refused".into();
                told["issues"] = refused.issues.into();
                told["suggestions"] = refused.suggestions.into();
            }
        }
        told
    }
}

/// A run in a list.
pub(super) fn listed_run(id: SessionId, session: &Session) -> Value {
    let Record { workflow_id, name, version, steps, .. } = Record::of(session);
    let open = session.open.as_ref();
    let is_confirmation = open.is_some_and(is_confirmation);
    let shown = open.and_then(|asked| Shown::of(asked.prompt.ui.as_ref()));
    let mut run = json!({
        "runId": id,
        "workflowId": workflow_id,
        "name": name,
        "version": version,
        "state": session.state.name(),
        "waitsForPerson": is_confirmation,
        "stepsDone": steps.len(),
        "createdAt": session.started.at,
        "changedAt": session.touched,
    });
    if let Some(shown) = shown {
        run["step"] = json!({"id": shown.step_id, "title": shown.title});
    }
    run
}

pub(super) fn moved_on() -> Failure {
    Failure::new(
        "OLD_TOKEN",
        "This token is of an earlier step, and the run has moved on. workflow_status gives the step \
         that is to be done now, with its token.",
    )
}

pub(super) fn waits_for_person() -> Failure {
    Failure::new(
        "WAITING_FOR_CONFIRMATION",
        "The output of this step was taken, and waits for a person to agree to it. It can be \
         changed when they do not; workflow_status tells.",
    )
}

/// What an agent hears whose user has closed the question.
pub(super) const CLOSED: &str = "The user closed the question without an answer, and you cannot \
                                 give one. Call workflow_continue with the same token and output \
                                 to have them asked again.";

pub(super) fn no_such_run() -> Failure {
    Failure::new("RUN_NOT_FOUND", "You have no run of this id. workflow_status lists yours.")
}

pub(super) fn refused(error: &EngineError) -> Failure {
    match error {
        EngineError::NotFound => no_such_run(),
        error => Failure::new("RUN_FAILED", error.to_string()),
    }
}
