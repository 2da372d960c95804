//! A flow called as a tool, in the form its caller can take (C-06, INT-100).

mod carried;
mod form;
mod output;
mod rounds;

use mcp_flow_engine::{
    Engine, EngineError, Notice, OpenQuestion, Reply as Answered, Response, Standing, Start, View,
};
use mcp_flow_proto::error::MISSING_CLIENT_CAPABILITY;
use mcp_flow_proto::model::{ElicitAction, ElicitResult};
use mcp_flow_proto::{RpcError, method};
use mcp_flow_server::ask::Capability;
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::tool::{Violation as Argument, reject_arguments};
use mcp_flow_server::{Context, IntoToolOutput, Outcome, ToolOutput};
use mcp_flow_session::{Owner, SessionId, Violation};
use serde_json::{Map, Value};

use crate::fault::{not_started, refused};
use crate::interaction::{Interaction, owner};
use form::Form;
pub(crate) use output::Unanswered;

/// Calls a flow: by rounds or forms if the client can do that, with what was given if not.
pub(crate) async fn call(
    interaction: Interaction,
    flow: String,
    context: Context,
    arguments: Map<String, Value>,
) -> Called {
    let call = Call {
        interaction: interaction.clone(),
        engine: interaction.engine().clone(),
        owner: owner(&context),
        arguments,
        flow,
        context,
    };
    call.engine.run();
    let called = match (call.context.takes_rounds(), call.can_show_forms()) {
        (true, true) => match &interaction.inner.stateless {
            Some(sessions) => call.by_tokens(sessions).await,
            None => call.by_rounds().await,
        },
        (false, true) => call.by_forms().await,
        (_, false) => call.all_at_once().await,
    };
    called.unwrap_or_else(|refused| refused)
}

/// How a call is answered.
pub(crate) enum Called {
    Done(Box<ToolOutput>),
    Asks(InputRequired),
    Refused(RpcError),
    /// One of the values given upfront breaks the rules of its question.
    Wrong(Argument),
}

impl IntoToolOutput for Called {
    fn into_tool_output(self) -> ToolOutput {
        match self {
            Self::Done(output) => *output,
            Self::Asks(asks) => asks.into_tool_output(),
            Self::Refused(error) => ToolOutput::failure(format!("{error:?}")),
            Self::Wrong(argument) => ToolOutput::failure(argument.sentence),
        }
    }

    fn reply(self, context: &Context) -> Outcome {
        match self {
            Self::Done(output) => context.reply_output(&output),
            Self::Asks(asks) => asks.reply(context),
            Self::Refused(error) => Err(error),
            Self::Wrong(argument) => reject_arguments(context, &[argument]),
        }
    }
}

impl From<RpcError> for Called {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<ToolOutput> for Called {
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

/// What somebody said to a question.
enum Said {
    /// This. It is still to be checked.
    Answer(Value),
    /// That they will not answer.
    Declined,
}

impl Call {
    fn can_show_forms(&self) -> bool {
        self.may_ask() && self.context.client_can(Capability::ElicitationForm)
    }

    /// Returns whether conversations are switched on.
    fn may_ask(&self) -> bool {
        self.interaction.inner.is_enabled
    }

    /// Asks by one form after another while the call waits.
    async fn by_forms(&self) -> Result<Called, Called> {
        let mut view = self.start().await?;
        let unfinished = self.ends_with_call(view.id);
        let output = loop {
            let open = match self.settled(view).await?.standing {
                Standing::Ended(ended) => break output::of(&ended),
                Standing::Waiting(open) => open,
                Standing::Working(_) => return Err(RpcError::internal().into()),
            };
            match self.ask_by_form(&open).await? {
                Ok(Said::Answer(value)) => {
                    let response = Response::from(value).for_turn(open.turn);
                    view = self.answer(unfinished.id, response).await?.view().clone();
                }
                Ok(Said::Declined) => {
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

    /// Shows a form. The inner error is the call's result where the client could not be asked.
    async fn ask_by_form(&self, open: &OpenQuestion) -> Result<Result<Said, ToolOutput>, RpcError> {
        let form = Form::of(open)?;
        let params = form.params(self.context.revision())?;
        let limit = self.context.limits().answer_time;
        let client = self.context.client();
        let asked = client.request_within(limit, method::ELICITATION_CREATE, &params).await;
        Ok(match asked {
            Ok(result) => Ok(form.said(result)),
            Err(error) => {
                let message = format!("`{}` could not be asked: {error}", open.key);
                Err(ToolOutput::failure(message))
            }
        })
    }

    /// Runs with what was given, and says what is missing.
    async fn all_at_once(&self) -> Result<Called, Called> {
        let view = self.start().await?;
        let unfinished = self.ends_with_call(view.id);
        match self.settled(view).await?.standing {
            Standing::Ended(ended) => {
                unfinished.disarm();
                Ok(output::of(&ended).into())
            }
            Standing::Waiting(open) => {
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
                // Whoever calls by rounds can be asked, if only it says so (C-06).
                let details = missing.message().to_owned();
                let error = missing.into_error(MISSING_CLIENT_CAPABILITY).details(details);
                let needed = Capability::ElicitationForm.declaration();
                let error = error.message("The server needs the client to declare elicitation");
                Err(error.with("requiredCapabilities", needed).into())
            }
            Standing::Working(_) => Err(RpcError::internal().into()),
        }
    }

    async fn start(&self) -> Result<View, Called> {
        self.engine.start(self.beginning()).await.map_err(|error| self.cannot_start(error))
    }

    fn beginning(&self) -> Start {
        Start::new(self.flow.as_str(), self.owner.clone())
            .params(self.arguments.clone())
            .default_inactivity(self.interaction.inner.call_inactivity)
    }

    /// What was given upfront are arguments, and is refused as arguments are (C-31).
    fn cannot_start(&self, error: EngineError) -> Called {
        match error {
            EngineError::InvalidParams { key, violation } => {
                let Violation { error, suggestion } = violation;
                let wrong = if key.is_empty() { error } else { format!("{key}: {error}") };
                let sentence = match suggestion {
                    Some(suggestion) => format!("{wrong}. {suggestion}"),
                    None => wrong,
                };
                Called::Wrong(Argument::named(&key, sentence))
            }
            error => Called::Refused(not_started(&self.flow, &error)),
        }
    }

    async fn answer(&self, id: SessionId, response: Response) -> Result<Answered, RpcError> {
        let answered = self.engine.respond(id, &self.owner, response).await;
        answered.map_err(|error| refused(&id.to_string(), &error))
    }

    /// Waits until the flow asks or ends, passing on how far it has come.
    async fn settled(&self, view: View) -> Result<View, RpcError> {
        if !matches!(view.standing, Standing::Working(_)) {
            return Ok(view);
        }
        let id = view.id;
        let failed = |error| refused(&id.to_string(), &error);
        let mut notices = self.engine.subscribe(id, &self.owner).await.map_err(failed)?;
        loop {
            let view = self.engine.view(id, &self.owner).await.map_err(failed)?;
            if !matches!(view.standing, Standing::Working(_)) {
                return Ok(view);
            }
            while let Some(Notice::Progress(progress)) = notices.next().await {
                let message = progress.message.as_deref();
                self.context.progress(progress.current, Some(progress.total), message);
            }
        }
    }

    /// Ends the session if the call ends before it: nobody else knows of it.
    fn ends_with_call(&self, id: SessionId) -> Unfinished {
        let (engine, owner) = (self.engine.clone(), self.owner.clone());
        Unfinished { engine, owner, id, is_armed: true }
    }
}

/// A session that is not to outlive its call.
struct Unfinished {
    engine: Engine,
    owner: Owner,
    id: SessionId,
    is_armed: bool,
}

impl Unfinished {
    /// It may go on, or is over.
    fn disarm(mut self) {
        self.is_armed = false;
    }

    async fn end(mut self, reason: &str) {
        self.is_armed = false;
        // It may be over already, which is as well.
        let _ = self.engine.cancel(self.id, &self.owner, Some(reason.to_owned())).await;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.is_armed {
            let (engine, owner, id) = (self.engine.clone(), self.owner.clone(), self.id);
            runtime.spawn(async move {
                let reason = Some("the call it belonged to is over".to_owned());
                let _ = engine.cancel(id, &owner, reason).await;
            });
        }
    }
}

impl Form {
    /// What the person said by this form.
    fn said(&self, result: ElicitResult) -> Said {
        match result.action {
            ElicitAction::Accept => Said::Answer(self.value(result.content.unwrap_or_default())),
            ElicitAction::Decline | ElicitAction::Cancel => Said::Declined,
        }
    }
}

/// What was wrong with the last answer, and the question again.
fn question_again(message: &str, violation: Option<&Violation>) -> String {
    match violation {
        None => message.to_owned(),
        Some(Violation { error, suggestion: None }) => format!("{error}.\n{message}"),
        Some(Violation { error, suggestion: Some(suggestion) }) => {
            format!("{error}. {suggestion}.\n{message}")
        }
    }
}

/// Why a session ended whose question nobody would answer.
const DECLINED: &str = "the user declined to answer";
