//! Flows called by `tools/call`: in rounds, by elicitation, or with arguments only (C-06, INT-100).

pub(crate) mod form;
pub(crate) mod output;
mod rounds;

use std::time::Duration;

use mcp_flow_engine::{
    AnswerReply, AnswerRequest, Engine, EngineError, Notice, OpenQuestion, SessionStatus,
    StartRequest, View,
};
use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{
    CreateTaskResult, DetailedTask, ElicitAction, ElicitResult, TASKS_EXTENSION,
};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::ask::Capability;
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::tool::{Violation as Argument, reject_arguments};
use mcp_flow_server::{Context, IntoToolOutput, Outcome, ToolOutput};
use mcp_flow_session::{InvalidAnswer, Owner, SessionId};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::interaction::{Interaction, owner, start_request};
use crate::protocol_errors::{engine_error, not_started};
use crate::task::TaskMode;
use form::Form;
pub(crate) use output::Unanswered;

/// Calls a flow: in rounds or by elicitation if the client supports it, else with the arguments
/// only.
pub(crate) async fn call(
    interaction: Interaction,
    flow: String,
    context: Context,
    arguments: Map<String, Value>,
) -> CallResult {
    let mode = interaction.inner.offered(&flow).map_or(TaskMode::Never, |flow| flow.task);
    if mode == TaskMode::Required
        && interaction.offers_tasks()
        && let Err(error) = context.require_client_extension(TASKS_EXTENSION)
    {
        return error.into();
    }
    // Without support the call runs to its end.
    let task = if interaction.takes_task(&context) { mode } else { TaskMode::Never };
    let call = Call {
        interaction: interaction.clone(),
        engine: interaction.engine().clone(),
        owner: owner(&context),
        task,
        arguments,
        flow,
        context,
    };
    call.engine.start_maintenance();
    if call.task == TaskMode::Always {
        return call.as_task().await.unwrap_or_else(|error| error);
    }
    let called = match (call.context.takes_rounds(), call.can_show_forms()) {
        (true, true) => call.by_rounds().await,
        (false, true) => call.by_elicitation().await,
        (_, false) => call.with_arguments_only().await,
    };
    called.unwrap_or_else(|error| error)
}

/// Result of a call.
pub(crate) enum CallResult {
    Done(Box<ToolOutput>),
    Asks(InputRequired),
    /// The call continues as a task.
    Task(Box<DetailedTask>),
    Refused(RpcError),
    /// An argument violates the rules of its question.
    InvalidArgument(Argument),
}

impl IntoToolOutput for CallResult {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::Done(output) => *output,
            Self::Asks(asks) => asks.into_tool_output(),
            Self::Task(task) => ToolOutput::text(format!("Task {}", task.task_id)),
            Self::Refused(error) => ToolOutput::failure(format!("{error:?}")),
            Self::InvalidArgument(argument) => ToolOutput::failure(argument.sentence),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::Done(output) => context.reply_output(&output),
            Self::Asks(asks) => asks.reply(context),
            Self::Task(task) => context.reply(&CreateTaskResult::from(&*task)),
            Self::Refused(error) => Err(error),
            Self::InvalidArgument(argument) => reject_arguments(context, &[argument]),
        }
    }
}

impl From<RpcError> for CallResult {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<ToolOutput> for CallResult {
    fn from(output: ToolOutput) -> Self {
        Self::Done(Box::new(output))
    }
}

/// One call of a flow.
struct Call {
    interaction: Interaction,
    engine: Engine,
    owner: Owner,
    arguments: Map<String, Value>,
    flow: String,
    context: Context,
    /// Mode for tasks; [`TaskMode::Never`] if the client does not support them.
    task: TaskMode,
}

/// Answer of a user to a form.
pub(crate) enum FormAnswer {
    /// A value, not yet validated.
    Value(Value),
    /// The user declined to answer.
    Declined,
}

impl Call {
    fn can_show_forms(&self) -> bool {
        self.may_ask() && self.context.client_can(Capability::ElicitationForm)
    }

    /// Returns whether interaction is enabled.
    fn may_ask(&self) -> bool {
        self.interaction.inner.is_enabled
    }

    /// Continues as a task at once.
    async fn as_task(&self) -> Result<CallResult, CallResult> {
        let view = self.start().await?;
        Ok(self.task_result(&view))
    }

    /// Returns the result of a call whose flow is still working: the task, if it may be one.
    fn still_working(&self, view: &View) -> Result<CallResult, CallResult> {
        match self.task_after() {
            Some(_) => Ok(self.task_result(view)),
            None if view.is_asleep() => Ok(output::asleep(&self.flow, view).into()),
            None => Err(RpcError::internal().into()),
        }
    }

    /// Waits until the flow withdraws a question. Never if it is answered, or has neither a timer nor a
    /// signal to wait for.
    async fn is_withdrawn(&self, view: &View, open: &OpenQuestion) -> bool {
        view.may_withdraw() && self.engine.wait_withdrawn(view.id, &self.owner, open.number).await
    }

    async fn view(&self, id: SessionId) -> Result<View, RpcError> {
        let view = self.engine.view(id, &self.owner).await;
        view.map_err(|error| engine_error(&id.to_string(), &error))
    }

    fn task_result(&self, view: &View) -> CallResult {
        CallResult::Task(Box::new(self.interaction.task_without_payload(view)))
    }

    /// Returns how long to wait for a working flow before the call becomes a task.
    fn task_after(&self) -> Option<Duration> {
        match self.task {
            TaskMode::Never => None,
            TaskMode::Auto => Some(self.interaction.inner.task_after),
            TaskMode::Always | TaskMode::Required => Some(Duration::ZERO),
        }
    }

    /// Asks by `elicitation/create` while the call waits.
    async fn by_elicitation(&self) -> Result<CallResult, CallResult> {
        let mut view = self.start().await?;
        let unfinished = self.cancel_on_drop(view.id);
        let output = loop {
            let settled = self.settled(view).await?;
            let open = match &settled.status {
                SessionStatus::Ended(ended) => break self.interaction.output_of(ended),
                SessionStatus::Waiting(open) => open.clone(),
                SessionStatus::Working(_) => {
                    unfinished.disarm();
                    return self.still_working(&settled);
                }
            };
            let asked = tokio::select! {
                asked = self.ask_by_form(&open) => asked?,
                true = self.is_withdrawn(&settled, &open) => {
                    view = self.view(unfinished.id).await?;
                    continue;
                }
            };
            match asked {
                Ok(FormAnswer::Value(value)) => {
                    let response = AnswerRequest::from(value).for_turn(open.turn);
                    view = self.answer(unfinished.id, response).await?.view().clone();
                }
                Ok(FormAnswer::Declined) => {
                    unfinished.end(&output::declined_reason(&open.key)).await;
                    return Ok(output::declined(&open.key).into());
                }
                Err(failed) => {
                    unfinished.end("the client could not be asked").await;
                    return Ok(failed.into());
                }
            }
        };
        unfinished.disarm();
        Ok(output.into())
    }

    /// Asks by a form. The inner error is the result of the call if the client could not be asked.
    async fn ask_by_form(
        &self,
        open: &OpenQuestion,
    ) -> Result<Result<FormAnswer, ToolOutput>, RpcError> {
        let form = Form::of(open)?;
        let params = form.params(self.context.revision())?;
        let limit = self.context.limits().answer_time;
        let client = self.context.client();
        let asked = client.request_within(limit, method::ELICITATION_CREATE, &params).await;
        Ok(match asked {
            Ok(result) => Ok(form.answer(result)),
            Err(error) => {
                let message = format!("`{}` cannot be asked: {error}", open.key);
                Err(ToolOutput::failure(message))
            }
        })
    }

    /// Runs with the arguments. A question is left to a task if the client supports those, and else
    /// reported as a missing value.
    async fn with_arguments_only(&self) -> Result<CallResult, CallResult> {
        let view = self.start().await?;
        let unfinished = self.cancel_on_drop(view.id);
        let view = self.settled(view).await?;
        match &view.status {
            SessionStatus::Ended(ended) => {
                unfinished.disarm();
                Ok(self.interaction.output_of(ended).into())
            }
            // Its question is answered through the task.
            SessionStatus::Waiting(open)
                if self.task != TaskMode::Never && !open.prompt.is_approval() =>
            {
                let result = self.task_result(&view);
                unfinished.disarm();
                Ok(result)
            }
            SessionStatus::Waiting(open) => {
                unfinished.end("a value was missing").await;
                let offered = self.interaction.inner.offered(&self.flow);
                let definition = self.engine.flow(&self.flow);
                let unanswered = offered
                    .iter()
                    .flat_map(|flow| flow.unanswered(definition.as_deref(), &self.arguments));
                let others: Vec<_> = unanswered.filter(|other| other.key != open.key).collect();
                let missing = output::missing(&self.flow, &self.arguments, open, &others);
                if !self.may_ask() || !self.context.takes_rounds() {
                    return Ok(missing.into_output().into());
                }
                // A client of this revision could be asked if it declared elicitation (C-06).
                let details = missing.message().to_owned();
                let error = missing.into_error(MISSING_CLIENT_CAPABILITY).details(details);
                let needed = Capability::ElicitationForm.declaration();
                let error = error.message("The server needs the client to declare elicitation");
                Err(error.with("requiredCapabilities", needed).into())
            }
            SessionStatus::Working(_) => {
                let result = self.still_working(&view)?;
                unfinished.disarm();
                Ok(result)
            }
        }
    }

    async fn start(&self) -> Result<View, CallResult> {
        self.engine.start(self.start_request()).await.map_err(|error| self.cannot_start(error))
    }

    fn start_request(&self) -> StartRequest {
        let start = start_request(&self.context, &self.flow)
            .params(self.arguments.clone())
            .default_inactivity(self.interaction.inner.call_inactivity);
        match self.task {
            TaskMode::Never => start,
            // It may become a task, whose result is polled.
            _ => start.retention(TASK_RETENTION),
        }
    }

    /// The error of a start. Values given upfront are arguments, and rejected like those (C-31).
    fn cannot_start(&self, error: EngineError) -> CallResult {
        match error {
            EngineError::InvalidParams { key, violation } => {
                let InvalidAnswer { error, suggestion } = violation;
                let message = if key.is_empty() { error } else { format!("{key}: {error}") };
                let sentence = match suggestion {
                    Some(suggestion) => format!("{message}. {suggestion}"),
                    None => message,
                };
                CallResult::InvalidArgument(Argument::named(&key, sentence))
            }
            error => CallResult::Refused(not_started(&self.flow, &error)),
        }
    }

    async fn answer(
        &self,
        id: SessionId,
        response: AnswerRequest,
    ) -> Result<AnswerReply, RpcError> {
        let replied = self.engine.respond(id, &self.owner, response).await;
        replied.map_err(|error| engine_error(&id.to_string(), &error))
    }

    /// Waits until the flow asks or ends, and forwards its progress. A call that may become a task
    /// waits only so long.
    async fn settled(&self, view: View) -> Result<View, RpcError> {
        if !matches!(view.status, SessionStatus::Working(_)) {
            return Ok(view);
        }
        let id = view.id;
        let failed = |error| engine_error(&id.to_string(), &error);
        let until = self.task_after().map(|wait| Instant::now() + wait);
        let mut notices = self.engine.subscribe(id, &self.owner).await.map_err(failed)?;
        loop {
            let view = self.engine.view(id, &self.owner).await.map_err(failed)?;
            if !matches!(view.status, SessionStatus::Working(_)) || self.sleeps_long(&view) {
                return Ok(view);
            }
            loop {
                let notice = match until {
                    None => notices.next().await,
                    Some(until) => match timeout_at(until, notices.next()).await {
                        Ok(notice) => notice,
                        Err(_) => return self.engine.view(id, &self.owner).await.map_err(failed),
                    },
                };
                let Some(Notice::Progress(progress)) = notice else { break };
                let message = progress.message.as_deref();
                self.context.progress(progress.current, Some(progress.total), message);
            }
        }
    }

    /// Returns whether a flow sleeps for longer than its call should stay open, perhaps until a signal
    /// arrives.
    fn sleeps_long(&self, view: &View) -> bool {
        let latest = self.engine.now().after(CALL_SLEEP);
        view.is_asleep() && view.wakes.is_none_or(|wakes| wakes > latest)
    }

    /// Cancels the session if the call ends before it, since no client knows its id.
    fn cancel_on_drop(&self, id: SessionId) -> CancelOnDrop {
        let (engine, owner) = (self.engine.clone(), self.owner.clone());
        CancelOnDrop { engine, owner, id, is_armed: true }
    }
}

/// Cancels a session on drop, unless disarmed.
struct CancelOnDrop {
    engine: Engine,
    owner: Owner,
    id: SessionId,
    is_armed: bool,
}

impl CancelOnDrop {
    /// Lets the session live on, or leaves one that has ended.
    fn disarm(mut self) {
        self.is_armed = false;
    }

    async fn end(mut self, reason: &str) {
        self.is_armed = false;
        // Fails if it has ended already.
        let _ = self.engine.cancel(self.id, &self.owner, Some(reason.to_owned())).await;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_armed {
            let (engine, owner, id) = (self.engine.clone(), self.owner.clone(), self.id);
            runtime.spawn(async move {
                let reason = Some("the call it belonged to has ended".to_owned());
                let _ = engine.cancel(id, &owner, reason).await;
            });
        }
    }
}

impl Form {
    /// Converts the result of elicitation to an answer.
    pub(crate) fn answer(&self, result: ElicitResult) -> FormAnswer {
        match result.action {
            ElicitAction::Accept => {
                FormAnswer::Value(self.value(result.content.unwrap_or_default()))
            }
            ElicitAction::Decline | ElicitAction::Cancel => FormAnswer::Declined,
        }
    }
}

/// Longest sleep of a flow during which its call stays open.
const CALL_SLEEP: Duration = Duration::from_secs(30);

/// Time for which the result of a call that may be a task can be polled.
const TASK_RETENTION: Duration = Duration::from_secs(60 * 60);

/// The message of a question, after the violation by the last answer.
fn message_with_violation(message: &str, violation: Option<&InvalidAnswer>) -> String {
    match violation {
        None => message.to_owned(),
        Some(InvalidAnswer { error, suggestion: None }) => format!("{error}.\n{message}"),
        Some(InvalidAnswer { error, suggestion: Some(suggestion) }) => {
            format!("{error}. {suggestion}.\n{message}")
        }
    }
}
