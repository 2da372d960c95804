//! Tools `workflow_start`, `workflow_continue` and `workflow_status`.

use mcp_flow_engine::{AnswerRequest, Engine, SessionStatus, StartRequest, View};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::Field;
use mcp_flow_server::ask::Capability;
use mcp_flow_server::{AskError, BadTool, Context, Elicited, Form, Tool, ToolOutput};
use mcp_flow_session::event::QuestionAsked;
use mcp_flow_session::prompt::PromptType;
use mcp_flow_session::store::{PageRequest, Phase};
use mcp_flow_session::{Owner, Session, SessionId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::executor::parameters;
use super::record::RunRecord;
use super::responses::{
    CLOSED, bad_token, engine_error, listed_run, no_such_run, old_token, unusable, waits_for_person,
};
use super::token::Token;
use super::{FLOW, Runs};
use crate::lookup::{self, CallOutcome, ToolErrors};
use crate::protocol_errors;

/// Builds the three tools.
pub(super) fn tools(runs: &Runs, engine: &Engine) -> Vec<Result<Tool, BadTool>> {
    let tools = RunTools { runs: runs.clone(), engine: engine.clone() };
    let id = json!({"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 3, "maxLength": 64});
    let context = json!({"type": "object", "description": "Variables of the task, for conditions and templates"});
    let [one, two, three] = [tools.clone(), tools.clone(), tools];
    vec![
        Tool::builder("workflow_start")
            .description(START)
            .input_schema(json!({
                "type": "object",
                "properties": {"workflowId": id, "context": context},
                "required": ["workflowId"],
                "additionalProperties": false
            }))
            .handler(move |context: Context, call: Begin| {
                let tools = one.clone();
                async move { outcome(tools.start(context, call).await) }
            }),
        Tool::builder("workflow_continue")
            .description(CONTINUE)
            .input_schema(json!({
                "type": "object",
                "properties": {
                    "token": {"type": "string", "description": "Token of the step"},
                    "output": {"type": "string", "description": "Output of the step"},
                    "context": context
                },
                "required": ["token"],
                "additionalProperties": false
            }))
            .handler(move |context: Context, call: Continue| {
                let tools = two.clone();
                async move { outcome(tools.continue_run(context, call).await) }
            }),
        Tool::builder("workflow_status")
            .description(STATUS)
            .input_schema(json!({
                "type": "object",
                "properties": {
                    "runId": {"type": "string", "description": "Run id; omit it to list all of your runs"},
                    "format": {"type": "string", "enum": ["json", "markdown"],
                               "description": "markdown returns the run with all outputs as a document"}
                },
                "additionalProperties": false
            }))
            .handler(move |context: Context, call: Status| {
                let tools = three.clone();
                async move { outcome(tools.status(&context, call).await) }
            }),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Begin {
    workflow_id: String,
    #[serde(default)]
    context: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Continue {
    token: String,
    output: Option<String>,
    context: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    run_id: Option<String>,
    #[serde(default)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Markdown,
}

/// Handlers of the run tools.
#[derive(Clone, Debug)]
pub(super) struct RunTools {
    pub(super) runs: Runs,
    engine: Engine,
}

type ToolResult = Result<ToolOutput, RpcError>;

/// Converts a result; errors are reported like those of the other tools (C-19).
fn outcome(response: ToolResult) -> CallOutcome {
    match response {
        Ok(output) => CallOutcome::Output(Box::new(output)),
        Err(error) => CallOutcome::Fault(error, ToolErrors::Results),
    }
}

impl RunTools {
    async fn start(self, context: Context, call: Begin) -> ToolResult {
        lookup::find(&self.runs.library, &call.workflow_id)?;
        lookup::check_context(&call.context)?;
        let owner = owner(&context);
        let mut start = StartRequest::new(FLOW, owner.clone());
        start.params = parameters(&call.workflow_id, call.context);
        let view = self.engine.start(start).await.map_err(|error| engine_error(&error))?;
        let record = RunRecord::of(&self.inspect(view.id, &owner).await?);
        let (mut response, view) = self.respond(&context, &owner, view).await?;
        self.log_confirmation(&view);
        response["workflow"] = record.description();
        Ok(ToolOutput::structured(response))
    }

    async fn continue_run(self, context: Context, call: Continue) -> ToolResult {
        self.continued(&context, call).await.map(ToolOutput::structured)
    }

    async fn continued(&self, context: &Context, call: Continue) -> Result<Value, RpcError> {
        let owner = owner(context);
        let Some(token) = Token::open(&self.runs.keys, &owner, &call.token) else {
            return Err(bad_token());
        };
        let session = self.inspect(token.run, &owner).await?;
        if session.ended.is_some() {
            let view = self.view(token.run, &owner).await?;
            return Ok(self.respond(context, &owner, view).await?.0);
        }
        let answer = answer(&call);
        let turn = token.turn as usize;
        if let Some(past) = session.history.get(turn) {
            if past.answered.value != answer {
                return Err(old_token(&session, turn));
            }
            return self.repeated(context, &owner, token, &session).await;
        }
        match session.open.as_ref() {
            Some(open) if !is_confirmation(open) => {}
            Some(_) => return Err(waits_for_person()),
            None => return Err(old_token(&session, turn)),
        }
        let response = AnswerRequest::from(answer).for_turn(token.turn);
        let reply = self.engine.respond(token.run, &owner, response).await;
        let reply = reply.map_err(|error| engine_error(&error))?;
        let view = self.wait_until_settled(reply.view().clone(), &owner).await?;
        let (response, view) = self.respond(context, &owner, view).await?;
        self.log_confirmation(&view);
        Ok(response)
    }

    async fn status(self, context: &Context, call: Status) -> ToolResult {
        let owner = owner(context);
        let Some(id) = call.run_id else { return self.list(&owner).await };
        let run: SessionId = id.parse().map_err(|_| no_such_run())?;
        let session = self.inspect(run, &owner).await?;
        let record = RunRecord::of(&session);
        if call.format == Format::Markdown {
            return Ok(ToolOutput::text(record.markdown(run, session.state.name())));
        }
        let view = self.view(run, &owner).await?;
        let mut status = self.describe(context, &owner, &view);
        status["workflow"] = record.description();
        status["done"] = serde_json::to_value(record.steps).unwrap_or_default();
        Ok(ToolOutput::structured(status))
    }

    /// Lists the caller's runs, up to a limit.
    async fn list(&self, owner: &Owner) -> ToolResult {
        let mut runs = Vec::new();
        let mut after = None;
        while runs.len() < MAX_LISTED {
            let page = PageRequest { after, most: PAGE };
            let listed = self.engine.list(owner, Phase::Any, page).await;
            let listed = listed.map_err(|error| engine_error(&error))?;
            let Some(last) = listed.last() else { break };
            after = Some(last.id);
            for run in listed.iter().filter(|run| run.summary.flow == FLOW) {
                let Ok(session) = self.engine.inspect(run.id, owner).await else { continue };
                runs.push(listed_run(run.id, &session));
            }
        }
        runs.truncate(MAX_LISTED);
        Ok(ToolOutput::structured(json!({"runs": runs})))
    }

    /// Repeats the response to a step that was answered with the same output before.
    async fn repeated(
        &self,
        context: &Context,
        owner: &Owner,
        token: Token,
        session: &Session,
    ) -> Result<Value, RpcError> {
        let after = session.history.iter().filter(|answered| answered.turn > token.turn);
        let next = after
            .map(|answered| (answered.turn, &answered.asked))
            .find(|(_, asked)| !is_confirmation(asked));
        let Some((turn, asked)) = next else {
            let view = self.view(token.run, owner).await?;
            return Ok(self.respond(context, owner, view).await?.0);
        };
        let hints = asked.prompt.ui.as_ref();
        Ok(self.step(owner, token.run, turn, hints))
    }

    /// Returns the status of a run and its view. If the run waits for a confirmation, asks the
    /// client's user first.
    async fn respond(
        &self,
        context: &Context,
        owner: &Owner,
        mut view: View,
    ) -> Result<(Value, View), RpcError> {
        // Reason the user gave no usable answer.
        let mut unanswered = None;
        while let SessionStatus::Waiting(open) = &view.status
            && open.prompt.kind == PromptType::Confirm
            && can_ask(context)
        {
            let form = Form::of(&*open.prompt.message, [Field::boolean("agree").required()]);
            let key = format!("confirm-{}", open.turn);
            let agrees = match context.ask(&key).elicit(form).await {
                Ok(Elicited::Accepted(answer)) => answer.get("agree") == Some(&Value::Bool(true)),
                Ok(Elicited::Declined) => false,
                Ok(Elicited::Cancelled) => {
                    unanswered = Some(CLOSED.to_owned());
                    break;
                }
                Err(AskError::Unusable(reason)) => {
                    unanswered = Some(unusable(&reason));
                    break;
                }
                // The user can still confirm elsewhere.
                Err(AskError::Client(_) | AskError::Refused { .. }) => break,
                Err(error) => {
                    return Err(
                        RpcError::new(protocol_errors::RUN_FAILED).details(error.to_string())
                    );
                }
            };
            let response = AnswerRequest::from(Value::Bool(agrees)).for_turn(open.turn);
            view = match self.engine.respond(view.id, owner, response).await {
                Ok(reply) => self.wait_until_settled(reply.view().clone(), owner).await?,
                // Another client answered first.
                Err(_) => {
                    view = self.view(view.id, owner).await?;
                    break;
                }
            };
        }
        let mut response = self.describe(context, owner, &view);
        if let Some(message) = unanswered {
            response["message"] = message.into();
        }
        Ok((response, view))
    }

    async fn inspect(&self, run: SessionId, owner: &Owner) -> Result<Session, RpcError> {
        let session =
            self.engine.inspect(run, owner).await.map_err(|error| engine_error(&error))?;
        if session.started.flow == FLOW { Ok(session) } else { Err(no_such_run()) }
    }

    async fn view(&self, run: SessionId, owner: &Owner) -> Result<View, RpcError> {
        self.engine.view(run, owner).await.map_err(|error| engine_error(&error))
    }

    async fn wait_until_settled(&self, view: View, owner: &Owner) -> Result<View, RpcError> {
        if !matches!(view.status, SessionStatus::Working(_)) {
            return Ok(view);
        }
        let waited = self.engine.wait(view.id, owner, SETTLE_TIMEOUT).await;
        waited.map_err(|error| engine_error(&error))
    }
}

/// Returns whether the client can ask its user within this call.
pub(super) fn can_ask(context: &Context) -> bool {
    let has_way = context.takes_rounds() || !context.revision().is_stateless();
    has_way && context.client_can(Capability::ElicitationForm)
}

fn owner(context: &Context) -> Owner {
    Owner::new(context.principal().name())
}

/// Builds the answer to the step's prompt from the call.
fn answer(call: &Continue) -> Value {
    let mut answer = Map::new();
    if let Some(output) = &call.output {
        answer.insert("output".to_owned(), output.as_str().into());
    }
    if let Some(context) = &call.context {
        answer.insert("context".to_owned(), Value::Object(context.clone()));
    }
    answer.into()
}

pub(super) fn is_confirmation(asked: &QuestionAsked) -> bool {
    asked.prompt.kind == PromptType::Confirm
}

const START: &str = "Starts a workflow run. Steps are shown one at a time, each with a token; pass \
                     the token and the output of the step to workflow_continue. Before the first \
                     step, check that `workflow.preconditions` are met and put \
                     `workflow.clarificationPrompts` to the user.";
const CONTINUE: &str = "Submits the output of the current step of a run, with the token of that step. \
                        Returns the next step, or the issues with the output.";
const STATUS: &str = "Returns the status and completed steps of a run, with the token for the next \
                      step. Without runId, lists all of your runs.";

const MAX_LISTED: usize = 100;
const PAGE: usize = 100;
const SETTLE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
