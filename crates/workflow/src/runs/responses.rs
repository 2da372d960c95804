//! JSON responses of the run tools.

use mcp_flow_engine::{EngineError, SessionStatus, View};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Context;
use mcp_flow_session::event::{Ending, QuestionAsked};
use mcp_flow_session::prompt::PromptType;
use mcp_flow_session::{Owner, Session, SessionId};
use serde_json::{Value, json};

use super::record::{RunRecord, ShownStep};
use super::token::Token;
use super::tools::{RunTools, can_ask, is_confirmation};
use crate::protocol_errors;

impl RunTools {
    /// Describes the status of a run in the reply to a client.
    pub(super) fn describe(&self, context: &Context, owner: &Owner, view: &View) -> Value {
        (self.runs.sending)(context, view);
        match &view.status {
            SessionStatus::Waiting(open) if open.prompt.kind == PromptType::Confirm => json!({
                "runId": view.id,
                "status": "waiting_for_confirmation",
                "message": match can_ask(context) {
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
            SessionStatus::Waiting(open) => {
                self.step(owner, view.id, open.turn, open.prompt.ui.as_ref())
            }
            SessionStatus::Working(_) => json!({"runId": view.id, "status": "working"}),
            SessionStatus::Ended(ended) => match &ended.ending {
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

    /// Logs how a person can confirm the step a run waits for. The agent does not get this text: it
    /// might run the command itself.
    pub(super) fn log_confirmation(&self, view: &View) {
        if let SessionStatus::Waiting(open) = &view.status
            && open.prompt.kind == PromptType::Confirm
        {
            let how = self.runs.confirmed_by.replace("{run}", &view.id.to_string());
            tracing::warn!(run = %view.id, "a workflow run waits for a confirmation. {how}");
        }
    }

    /// Describes a step to do, with the token for its output.
    pub(super) fn step(
        &self,
        owner: &Owner,
        run: SessionId,
        turn: u32,
        hints: Option<&Value>,
    ) -> Value {
        let token = Token { run, turn }.seal(&self.runs.keys, owner);
        let mut response =
            json!({"runId": run, "status": "step", "isComplete": false, "token": token});
        if let Some(shown) = ShownStep::of(hints) {
            let asks_for = if shown.is_about_context { "context" } else { "output" };
            response["step"] = json!({
                "id": shown.step_id, "title": shown.title, "prompt": shown.prompt, "asksFor": asks_for,
            });
            if let Some(round) = shown.round {
                response["step"]["round"] = round.into();
            }
            if let Some(rejection) = shown.refused {
                response["status"] = "refused".into();
                response["issues"] = rejection.issues.into();
                response["suggestions"] = rejection.suggestions.into();
            }
        }
        response
    }
}

/// Entry of a run in a list.
pub(super) fn listed_run(id: SessionId, session: &Session) -> Value {
    let RunRecord { workflow_id, name, version, steps, .. } = RunRecord::of(session);
    let open = session.open.as_ref();
    let is_confirmation = open.is_some_and(is_confirmation);
    let shown = open.and_then(|asked| ShownStep::of(asked.prompt.ui.as_ref()));
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

/// Error for a used token that comes with a different output.
pub(super) fn old_token(session: &Session, turn: usize) -> RpcError {
    let shown = |asked: &QuestionAsked| ShownStep::of(asked.prompt.ui.as_ref());
    let past = session.history.iter().map(|turn| &turn.asked).chain(&session.open).skip(turn);
    let mut past = past.filter(|asked| !is_confirmation(asked)).map(shown);
    let (this, next) = (past.next().flatten(), past.next().flatten());
    let what = match (this, next) {
        (Some(this), Some(next)) if this.step_id == next.step_id && next.refused.is_some() => {
            "The output passed with this token was rejected, and the step was asked for \
             again, with another token."
                .to_owned()
        }
        (_, Some(next)) => format!(
            "This token was used before, with another output, which was accepted. The step \
             \"{}\" came next.",
            next.title
        ),
        (_, None) if session.open.is_some() => return waits_for_person(),
        (_, None) => "The run is still processing the output passed with this token.".into(),
    };
    let details = format!("{what} workflow_status returns the current step with its token.");
    RpcError::new(protocol_errors::OLD_TOKEN).details(details)
}

pub(super) fn bad_token() -> RpcError {
    RpcError::new(protocol_errors::BAD_TOKEN).details(
        "This token is unknown. Use the one returned with the step, unchanged; \
         workflow_status returns it again.",
    )
}

pub(super) fn waits_for_person() -> RpcError {
    RpcError::new(protocol_errors::WAITING_FOR_CONFIRMATION).details(
        "The output of this step was accepted, and waits for a person to confirm it. It can be \
         changed if they decline; workflow_status shows the outcome.",
    )
}

/// Message to an agent whose user closed the confirmation without an answer.
pub(super) const CLOSED: &str = "The user closed the question without an answer, and you cannot \
                                 give one. Call workflow_continue with the same token and output \
                                 to have them asked again.";

/// Message to an agent whose client gave an invalid answer.
pub(super) fn unusable(reason: &str) -> String {
    let reason: String = reason.chars().take(MAX_REASON_LENGTH).collect();
    format!(
        "The client's answer to the question is invalid ({reason}), so the step is not confirmed \
         yet. Call workflow_continue with the same token and output to have the user asked again."
    )
}

/// Message to an agent whose client can ask the user, while the prompt is open.
const NOT_ANSWERED: &str = "A person has to confirm this step, and you cannot. Nobody has answered \
                            yet. Call workflow_continue with the same token and output to have the \
                            user asked again.";

const MAX_REASON_LENGTH: usize = 200;

pub(super) fn no_such_run() -> RpcError {
    RpcError::new(protocol_errors::RUN_NOT_FOUND)
        .details("You have no run with this id. workflow_status lists your runs.")
}

pub(super) fn engine_error(error: &EngineError) -> RpcError {
    match error {
        EngineError::NotFound => no_such_run(),
        error => RpcError::new(protocol_errors::RUN_FAILED).details(error.to_string()),
    }
}
