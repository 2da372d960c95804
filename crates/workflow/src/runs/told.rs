//! What an agent is told of its runs.

use mcp_flow_engine::{EngineError, Standing, View};
use mcp_flow_proto::RpcError;
use mcp_flow_session::event::{Asked, Ending};
use mcp_flow_session::prompt::PromptType;
use mcp_flow_session::{Owner, Session, SessionId};
use serde_json::{Value, json};

use super::record::{Record, Shown};
use super::token::Token;
use super::tools::{Desk, is_confirmation};
use crate::fault;

impl Desk {
    /// Describes where a run stands, for an agent whose client can ask the person, or cannot.
    pub(super) fn standing(&self, owner: &Owner, view: &View, can_ask: bool) -> Value {
        match &view.standing {
            Standing::Waiting(open) if open.prompt.kind == PromptType::Confirm => json!({
                "runId": view.id,
                "status": "waiting_for_confirmation",
                "message": match can_ask {
                    true => NOT_ANSWERED.to_owned(),
                    false => format!(
                        "A person has to confirm this step, and you cannot. {} Then call \
                         workflow_status.",
                        self.runs.confirmed_at.replace("{run}", &view.id.to_string())
                    ),
                },
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

    /// Tells the person, by the log, how to confirm what a run waits for. The agent is not told: it
    /// might do so itself.
    pub(super) fn tell_person(&self, view: &View) {
        if let Standing::Waiting(open) = &view.standing
            && open.prompt.kind == PromptType::Confirm
        {
            let how = self.runs.confirmed_by.replace("{run}", &view.id.to_string());
            tracing::warn!(run = %view.id, "a workflow waits for a person to confirm a step. {how}");
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

/// Says why a token that was used cannot be used with another output.
pub(super) fn old_token(session: &Session, turn: usize) -> RpcError {
    let shown = |asked: &Asked| Shown::of(asked.prompt.ui.as_ref());
    let past = session.history.iter().map(|turn| &turn.asked).chain(&session.open).skip(turn);
    let mut past = past.filter(|asked| !is_confirmation(asked)).map(shown);
    let (this, next) = (past.next().flatten(), past.next().flatten());
    let what = match (this, next) {
        (Some(this), Some(next)) if this.step_id == next.step_id && next.refused.is_some() => {
            "The output that was given with this token was refused, and the step was asked for \
             again, with another token."
                .to_owned()
        }
        (_, Some(next)) => format!(
            "This token was used before, with another output, which was accepted. The step \
             \"{}\" came next.",
            next.title
        ),
        (_, None) if session.open.is_some() => return waits_for_person(),
        (_, None) => {
            "The run is still at work on the output that was given with this token.".into()
        }
    };
    let details =
        format!("{what} workflow_status gives the step that is to be done now, with its token.");
    RpcError::new(fault::OLD_TOKEN).details(details)
}

pub(super) fn bad_token() -> RpcError {
    RpcError::new(fault::BAD_TOKEN).details(
        "This is not a token of yours. Use the one that came with the step, unchanged; \
         workflow_status gives it again.",
    )
}

pub(super) fn waits_for_person() -> RpcError {
    RpcError::new(fault::WAITING_FOR_CONFIRMATION).details(
        "The output of this step was taken, and waits for a person to agree to it. It can be \
         changed when they do not; workflow_status tells.",
    )
}

/// What an agent hears whose user has closed the question.
pub(super) const CLOSED: &str = "The user closed the question without an answer, and you cannot \
                                 give one. Call workflow_continue with the same token and output \
                                 to have them asked again.";

/// Message to an agent whose client gave an invalid answer.
pub(super) fn unusable(reason: &str) -> String {
    let reason: String = reason.chars().take(LONGEST_REASON).collect();
    format!(
        "The client's answer to the question cannot be used ({reason}), so nobody has confirmed the \
         step. Call workflow_continue with the same token and output to have the user asked again."
    )
}

/// Message to an agent whose client can ask the user, while the question is open.
const NOT_ANSWERED: &str = "A person has to confirm this step, and you cannot. Nobody has answered \
                            yet. Call workflow_continue with the same token and output to have the \
                            user asked again.";

const LONGEST_REASON: usize = 200;

pub(super) fn no_such_run() -> RpcError {
    RpcError::new(fault::RUN_NOT_FOUND)
        .details("You have no run of this id. workflow_status lists yours.")
}

pub(super) fn refused(error: &EngineError) -> RpcError {
    match error {
        EngineError::NotFound => no_such_run(),
        error => RpcError::new(fault::RUN_FAILED).details(error.to_string()),
    }
}
