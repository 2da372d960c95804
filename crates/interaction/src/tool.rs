//! Flows called by `tools/call`: in rounds, by elicitation, or with arguments only (C-06, INT-100).

mod form;
mod output;
mod rounds;

use mcp_flow_engine::{
    AnswerReply, AnswerRequest, Engine, EngineError, Notice, OpenQuestion, SessionStatus,
    StartRequest, View,
};
use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{ElicitAction, ElicitResult};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::ask::Capability;
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::tool::{Violation as Argument, reject_arguments};
use mcp_flow_server::{Context, IntoToolOutput, Outcome, ToolOutput};
use mcp_flow_session::{InvalidAnswer, Owner, SessionId};
use serde_json::{Map, Value};

use crate::fault::{engine_error, not_started};
use crate::interaction::{Interaction, owner};
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
    let call = Call {
        interaction: interaction.clone(),
        engine: interaction.engine().clone(),
        owner: owner(&context),
        arguments,
        flow,
        context,
    };
    call.engine.start_maintenance();
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
    Refused(RpcError),
    /// An argument violates the rules of its question.
    InvalidArgument(Argument),
}

impl IntoToolOutput for CallResult {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::Done(output) => *output,
            Self::Asks(asks) => asks.into_tool_output(),
            Self::Refused(error) => ToolOutput::failure(format!("{error:?}")),
            Self::InvalidArgument(argument) => ToolOutput::failure(argument.sentence),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::Done(output) => context.reply_output(&output),
            Self::Asks(asks) => asks.reply(context),
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
}

/// Answer of a user to a form.
enum FormAnswer {
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

    /// Asks by `elicitation/create` while the call waits.
    async fn by_elicitation(&self) -> Result<CallResult, CallResult> {
        let mut view = self.start().await?;
        let unfinished = self.cancel_on_drop(view.id);
        let output = loop {
            let open = match self.settled(view).await?.status {
                SessionStatus::Ended(ended) => break output::of(&ended),
                SessionStatus::Waiting(open) => open,
                SessionStatus::Working(_) => return Err(RpcError::internal().into()),
            };
            match self.ask_by_form(&open).await? {
                Ok(FormAnswer::Value(value)) => {
                    let response = AnswerRequest::from(value).for_turn(open.turn);
                    view = self.answer(unfinished.id, response).await?.view().clone();
                }
                Ok(FormAnswer::Declined) => {
                    unfinished.end(DECLINED).await;
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

    /// Runs with the arguments, and reports which values are missing.
    async fn with_arguments_only(&self) -> Result<CallResult, CallResult> {
        let view = self.start().await?;
        let unfinished = self.cancel_on_drop(view.id);
        match self.settled(view).await?.status {
            SessionStatus::Ended(ended) => {
                unfinished.disarm();
                Ok(output::of(&ended).into())
            }
            SessionStatus::Waiting(open) => {
                unfinished.end("a value was missing").await;
                let offered = self.interaction.inner.flows.get(&self.flow);
                let definition = self.engine.flow(&self.flow);
                let unanswered = offered
                    .into_iter()
                    .flat_map(|flow| flow.unanswered(definition, &self.arguments));
                let others: Vec<_> = unanswered.filter(|other| other.key != open.key).collect();
                let missing = output::missing(&self.flow, &self.arguments, &open, &others);
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
            SessionStatus::Working(_) => Err(RpcError::internal().into()),
        }
    }

    async fn start(&self) -> Result<View, CallResult> {
        self.engine.start(self.start_request()).await.map_err(|error| self.cannot_start(error))
    }

    fn start_request(&self) -> StartRequest {
        StartRequest::new(self.flow.as_str(), self.owner.clone())
            .params(self.arguments.clone())
            .default_inactivity(self.interaction.inner.call_inactivity)
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

    /// Waits until the flow asks or ends, and forwards its progress.
    async fn settled(&self, view: View) -> Result<View, RpcError> {
        if !matches!(view.status, SessionStatus::Working(_)) {
            return Ok(view);
        }
        let id = view.id;
        let failed = |error| engine_error(&id.to_string(), &error);
        let mut notices = self.engine.subscribe(id, &self.owner).await.map_err(failed)?;
        loop {
            let view = self.engine.view(id, &self.owner).await.map_err(failed)?;
            if !matches!(view.status, SessionStatus::Working(_)) {
                return Ok(view);
            }
            while let Some(Notice::Progress(progress)) = notices.next().await {
                let message = progress.message.as_deref();
                self.context.progress(progress.current, Some(progress.total), message);
            }
        }
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
    fn answer(&self, result: ElicitResult) -> FormAnswer {
        match result.action {
            ElicitAction::Accept => {
                FormAnswer::Value(self.value(result.content.unwrap_or_default()))
            }
            ElicitAction::Decline | ElicitAction::Cancel => FormAnswer::Declined,
        }
    }
}

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

/// Reason of cancelling a session whose question was declined.
const DECLINED: &str = "the user declined to answer";
