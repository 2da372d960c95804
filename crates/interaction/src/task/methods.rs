//! `tasks/get`, `tasks/update` and `tasks/cancel`.

use mcp_flow_engine::{AnswerRequest, EngineError, QuestionId, SessionStatus, View};
use mcp_flow_proto::decode_error::json_problem;
use mcp_flow_proto::model::{DetailedTask, ElicitResult, TASKS_EXTENSION, TaskParams};
use mcp_flow_proto::{Params, RpcError, method};
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::router::Era;
use mcp_flow_server::{Context, Outcome, Reply, ServerBuilder};
use mcp_flow_session::{Owner, SessionId, StoreError};
use serde::Serialize;
use serde_json::{Map, Value};

use super::state::request_key;
use crate::interaction::{Interaction, owner};
use crate::protocol_errors::engine_error;
use crate::tool::form::Form;
use crate::tool::{FormAnswer, output};

/// Adds the methods to a server.
pub(super) fn add_to(interaction: &Interaction, server: ServerBuilder) -> ServerBuilder {
    let server = method(server, interaction, method::TASKS_GET, get);
    let server = method(server, interaction, method::TASKS_UPDATE, update);
    method(server, interaction, method::TASKS_CANCEL, cancel)
}

/// Adds a method whose params are read before it waits.
fn method<W>(
    server: ServerBuilder,
    interaction: &Interaction,
    name: &'static str,
    serve: impl Fn(Interaction, Context, TaskParams) -> W + Copy + Send + Sync + 'static,
) -> ServerBuilder
where
    W: Future<Output = Outcome> + Send + 'static,
{
    let interaction = interaction.clone();
    server.method(name, Era::Stateless, move |context: &Context, params: Params<'_>| {
        if let Err(error) = context.require_client_extension(TASKS_EXTENSION) {
            return Reply::Ready(Err(error));
        }
        match TaskParams::from_params(params) {
            Ok(params) => {
                Reply::Later(Box::pin(serve(interaction.clone(), context.clone(), params)))
            }
            Err(details) => Reply::Ready(Err(RpcError::invalid_params(details))),
        }
    })
}

async fn get(interaction: Interaction, context: Context, params: TaskParams) -> Outcome {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct GetTaskResult {
        result_type: &'static str,
        #[serde(flatten)]
        task: DetailedTask,
    }
    let (_, view) = interaction.find_task(&context, params.task_id.as_deref()).await?;
    if let Some(outcome) = interaction.completed_task(&context, &view) {
        return outcome;
    }
    let task = interaction.task(&context, &view)?;
    context.reply(&GetTaskResult { result_type: "complete", task })
}

/// Gives the answers to open questions to the flow. Others are ignored: they were answered before,
/// or the flow no longer asks.
async fn update(interaction: Interaction, context: Context, params: TaskParams) -> Outcome {
    let Some(mut responses) = params.input_responses else {
        return Err(RpcError::invalid_params("inputResponses is required"));
    };
    let (owner, view) = interaction.find_task(&context, params.task_id.as_deref()).await?;
    let mut answers = Vec::new();
    // All are read before the first counts, so that a malformed one changes nothing.
    for question in view.questions() {
        let key = request_key(question);
        let Some(response) = responses.remove(&key) else { continue };
        let result: ElicitResult = serde_json::from_value(response).map_err(|error| {
            let problem = json_problem(&error);
            RpcError::invalid_params(format!("inputResponses[{key:?}] is malformed: {problem}"))
        })?;
        match Form::of(question)?.answer(result) {
            FormAnswer::Value(value) => answers.push((question.id(), value)),
            FormAnswer::Declined => {
                let reason = output::declined_reason(&question.key);
                return interaction.cancel_task(&context, view.id, &owner, reason).await;
            }
        }
    }
    for (question, value) in answers {
        interaction.answer_task(view.id, &owner, question, value).await?;
    }
    acknowledge(&context)
}

async fn cancel(interaction: Interaction, context: Context, params: TaskParams) -> Outcome {
    let (owner, view) = interaction.find_task(&context, params.task_id.as_deref()).await?;
    let reason = "The client cancelled the task".to_owned();
    interaction.cancel_task(&context, view.id, &owner, reason).await
}

impl Interaction {
    /// Finds a task of the caller. Unknown, expired, malformed and missing ids, and tasks that the
    /// caller may not see, lead to the same error.
    pub(super) async fn find_task(
        &self,
        context: &Context,
        id: Option<&str>,
    ) -> Result<(Owner, View), RpcError> {
        let id: SessionId = id.and_then(|id| id.parse().ok()).ok_or_else(unknown_task)?;
        let owner = owner(context);
        let view = self.engine().view(id, &owner).await.map_err(|error| task_error(id, &error))?;
        let is_erased = matches!(&view.status, SessionStatus::Ended(ended)
            if ended.until <= self.engine().now());
        let offered = self.inner.offered(&view.flow);
        let kind = offered.map_or(PermissionKind::Flow, |offered| offered.kind());
        if is_erased || !context.may(kind, &view.flow) {
            return Err(unknown_task());
        }
        Ok((owner, view))
    }

    async fn answer_task(
        &self,
        id: SessionId,
        owner: &Owner,
        question: QuestionId,
        value: Value,
    ) -> Result<(), RpcError> {
        let answer = AnswerRequest::from(value).for_question(question);
        match self.engine().respond(id, owner, answer).await {
            // An invalid answer opens the next attempt, with another key.
            Ok(_) => self.cancel_warning(id),
            Err(error) if has_passed(&error) => {}
            Err(error) => return Err(task_error(id, &error)),
        }
        Ok(())
    }

    async fn cancel_task(
        &self,
        context: &Context,
        id: SessionId,
        owner: &Owner,
        reason: String,
    ) -> Outcome {
        match self.engine().cancel(id, owner, Some(reason)).await {
            Ok(_) => self.cancel_warning(id),
            Err(error) if has_passed(&error) => {}
            Err(error) => return Err(task_error(id, &error)),
        }
        acknowledge(context)
    }
}

/// Returns whether a request came too late to change its task: the question is closed, or the task
/// has ended.
fn has_passed(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::QuestionClosed(_)
            | EngineError::Transition { .. }
            | EngineError::AlreadyCancelled
            | EngineError::Expired(_)
            | EngineError::TimedOut(_)
    )
}

/// Converts an error of the engine. Whose a damaged session is cannot be known, so it is reported
/// like one that does not exist.
fn task_error(id: SessionId, error: &EngineError) -> RpcError {
    match error {
        EngineError::NotFound => unknown_task(),
        EngineError::Store(StoreError::Damaged(_)) => {
            tracing::error!(task = %id, %error, "a task cannot be read");
            unknown_task()
        }
        error => engine_error(&id.to_string(), error),
    }
}

/// Error for a task that the caller cannot know.
fn unknown_task() -> RpcError {
    RpcError::invalid_params("No task has this taskId, or it has expired")
        .message("Failed to retrieve task: Task not found")
}

fn acknowledge(context: &Context) -> Outcome {
    let mut result = Map::new();
    result.insert("resultType".to_owned(), "complete".into());
    context.reply(&result)
}
