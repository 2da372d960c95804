//! `workflow_start`, `workflow_continue` and `workflow_status`.

use mcp_flow_engine::{Engine, Response, Standing, Start, View};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::Field;
use mcp_flow_server::ask::Capability;
use mcp_flow_server::{AskError, BadTool, Context, Elicited, Form, Tool, ToolOutput};
use mcp_flow_session::event::Asked;
use mcp_flow_session::prompt::PromptType;
use mcp_flow_session::store::{Page, Phase};
use mcp_flow_session::{Owner, Session, SessionId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::record::Record;
use super::token::Token;
use super::told::{
    CLOSED, bad_token, listed_run, no_such_run, old_token, refused, unusable, waits_for_person,
};
use super::walk::parameters;
use super::{FLOW, Runs};
use crate::fault;
use crate::lookup::{self, Called, ToolErrors};

/// The three tools.
pub(super) fn tools(runs: &Runs, engine: &Engine) -> Vec<Result<Tool, BadTool>> {
    let desk = Desk { runs: runs.clone(), engine: engine.clone() };
    let id = json!({"type": "string", "pattern": "^[a-z0-9-]+$", "minLength": 3, "maxLength": 64});
    let context = json!({"type": "object", "description": "What is known of the task, for conditions and texts"});
    let [one, two, three] = [desk.clone(), desk.clone(), desk];
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
                let desk = one.clone();
                async move { called(desk.start(context, call).await) }
            }),
        Tool::builder("workflow_continue")
            .description(CONTINUE)
            .input_schema(json!({
                "type": "object",
                "properties": {
                    "token": {"type": "string", "description": "The token that came with the step"},
                    "output": {"type": "string", "description": "What came of the step"},
                    "context": context
                },
                "required": ["token"],
                "additionalProperties": false
            }))
            .handler(move |context: Context, call: Continue| {
                let desk = two.clone();
                async move { called(desk.go_on(context, call).await) }
            }),
        Tool::builder("workflow_status")
            .description(STATUS)
            .input_schema(json!({
                "type": "object",
                "properties": {
                    "runId": {"type": "string", "description": "One run; all of yours if it is left out"},
                    "format": {"type": "string", "enum": ["json", "markdown"],
                               "description": "markdown gives the run with all outputs for people"}
                },
                "additionalProperties": false
            }))
            .handler(move |context: Context, call: Status| {
                let desk = three.clone();
                async move { called(desk.status(&context, call).await) }
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

/// Where agents come to with their runs.
#[derive(Clone, Debug)]
pub(super) struct Desk {
    pub(super) runs: Runs,
    engine: Engine,
}

type Told = Result<ToolOutput, RpcError>;

/// What came of a call; a fault is told as those of the other tools (C-19).
fn called(told: Told) -> Called {
    match told {
        Ok(output) => Called::Output(Box::new(output)),
        Err(error) => Called::Fault(error, ToolErrors::Results),
    }
}

impl Desk {
    async fn start(self, context: Context, call: Begin) -> Told {
        lookup::find(&self.runs.library, &call.workflow_id)?;
        lookup::check_context(&call.context)?;
        let owner = owner(&context);
        let mut start = Start::new(FLOW, owner.clone());
        start.params = parameters(&call.workflow_id, call.context);
        let view = self.engine.start(start).await.map_err(|error| refused(&error))?;
        let record = Record::of(&self.inspect(view.id, &owner).await?);
        let (mut told, view) = self.told(&context, &owner, view).await?;
        self.tell_person(&view);
        told["workflow"] = record.told();
        Ok(ToolOutput::structured(told))
    }

    async fn go_on(self, context: Context, call: Continue) -> Told {
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
            return Ok(self.told(context, &owner, view).await?.0);
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
        let response = Response::from(answer).for_turn(token.turn);
        let reply = self.engine.respond(token.run, &owner, response).await;
        let reply = reply.map_err(|error| refused(&error))?;
        let view = self.settled(reply.view().clone(), &owner).await?;
        let (told, view) = self.told(context, &owner, view).await?;
        self.tell_person(&view);
        Ok(told)
    }

    async fn status(self, context: &Context, call: Status) -> Told {
        let owner = owner(context);
        let Some(id) = call.run_id else { return self.list(&owner).await };
        let run: SessionId = id.parse().map_err(|_| no_such_run())?;
        let session = self.inspect(run, &owner).await?;
        let record = Record::of(&session);
        if call.format == Format::Markdown {
            return Ok(ToolOutput::text(record.markdown(run, session.state.name())));
        }
        let view = self.view(run, &owner).await?;
        let mut status = self.standing(&owner, &view, can_ask(context));
        status["workflow"] = record.told();
        status["done"] = serde_json::to_value(record.steps).unwrap_or_default();
        Ok(ToolOutput::structured(status))
    }

    /// The caller's runs, as many as a reader can take in.
    async fn list(&self, owner: &Owner) -> Told {
        let mut runs = Vec::new();
        let mut after = None;
        while runs.len() < MOST_LISTED {
            let page = Page { after, most: PAGE };
            let listed = self.engine.list(owner, Phase::Any, page).await;
            let listed = listed.map_err(|error| refused(&error))?;
            let Some(last) = listed.last() else { break };
            after = Some(last.id);
            for run in listed.iter().filter(|run| run.summary.flow == FLOW) {
                let Ok(session) = self.engine.inspect(run.id, owner).await else { continue };
                runs.push(listed_run(run.id, &session));
            }
        }
        runs.truncate(MOST_LISTED);
        Ok(ToolOutput::structured(json!({"runs": runs})))
    }

    /// What followed a step that was answered before with the same.
    async fn repeated(
        &self,
        context: &Context,
        owner: &Owner,
        token: Token,
        session: &Session,
    ) -> Result<Value, RpcError> {
        let after = (token.turn as usize + 1)..session.history.len();
        let next = after
            .map(|place| (place, &session.history[place].asked))
            .find(|(_, asked)| !is_confirmation(asked));
        let Some((place, asked)) = next else {
            let view = self.view(token.run, owner).await?;
            return Ok(self.told(context, owner, view).await?.0);
        };
        let turn = u32::try_from(place).unwrap_or(u32::MAX);
        let hints = asked.prompt.ui.as_ref();
        Ok(self.step(owner, token.run, turn, hints))
    }

    /// Tells where a run stands, and gives how it stands then; asks the person first, if it is for
    /// them to say.
    async fn told(
        &self,
        context: &Context,
        owner: &Owner,
        mut view: View,
    ) -> Result<(Value, View), RpcError> {
        let can_ask = can_ask(context);
        // Why the person was asked in vain.
        let mut in_vain = None;
        while let Standing::Waiting(open) = &view.standing
            && open.prompt.kind == PromptType::Confirm
            && can_ask
        {
            let form = Form::of(&*open.prompt.message, [Field::boolean("agree").required()]);
            let key = format!("confirm-{}", open.turn);
            let agrees = match context.ask(&key).elicit(form).await {
                Ok(Elicited::Accepted(answer)) => answer.get("agree") == Some(&Value::Bool(true)),
                Ok(Elicited::Declined) => false,
                Ok(Elicited::Cancelled) => {
                    in_vain = Some(CLOSED.to_owned());
                    break;
                }
                Err(AskError::Unusable(reason)) => {
                    in_vain = Some(unusable(&reason));
                    break;
                }
                // The person can still be asked elsewhere.
                Err(AskError::Client(_) | AskError::Refused { .. }) => break,
                Err(error) => {
                    return Err(RpcError::new(fault::RUN_FAILED).details(error.to_string()));
                }
            };
            let response = Response::from(Value::Bool(agrees)).for_turn(open.turn);
            view = match self.engine.respond(view.id, owner, response).await {
                Ok(reply) => self.settled(reply.view().clone(), owner).await?,
                // Somebody else was quicker, perhaps the same person elsewhere.
                Err(_) => {
                    view = self.view(view.id, owner).await?;
                    break;
                }
            };
        }
        let mut told = self.standing(owner, &view, can_ask);
        if let Some(message) = in_vain {
            told["message"] = message.into();
        }
        Ok((told, view))
    }

    async fn inspect(&self, run: SessionId, owner: &Owner) -> Result<Session, RpcError> {
        let session = self.engine.inspect(run, owner).await.map_err(|error| refused(&error))?;
        if session.started.flow == FLOW { Ok(session) } else { Err(no_such_run()) }
    }

    async fn view(&self, run: SessionId, owner: &Owner) -> Result<View, RpcError> {
        self.engine.view(run, owner).await.map_err(|error| refused(&error))
    }

    async fn settled(&self, view: View, owner: &Owner) -> Result<View, RpcError> {
        if !matches!(view.standing, Standing::Working(_)) {
            return Ok(view);
        }
        let waited = self.engine.wait(view.id, owner, PATIENCE).await;
        waited.map_err(|error| refused(&error))
    }
}

/// Returns whether the client can ask the person behind it, by the way this call came.
fn can_ask(context: &Context) -> bool {
    let has_way = context.takes_rounds() || !context.revision().is_stateless();
    has_way && context.client_can(Capability::ElicitationForm)
}

fn owner(context: &Context) -> Owner {
    Owner::new(context.principal().name())
}

/// What the call gives, as the answer to the question of the step.
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

pub(super) fn is_confirmation(asked: &Asked) -> bool {
    asked.prompt.kind == PromptType::Confirm
}

const START: &str = "Starts a run of a workflow. Steps are shown one at a time, each with a token; \
                     workflow_continue takes the token and the output of the step. Before the \
                     first step, see that `workflow.preconditions` are met and put \
                     `workflow.clarificationPrompts` to the user.";
const CONTINUE: &str = "Gives the output of the step a run is at, with the token that came with it. \
                        Answers with the next step, or with what is wrong with the output.";
const STATUS: &str = "Tells where a run stands and what was done in it, with the token to go on \
                      with. Without a run, lists all of yours.";

const MOST_LISTED: usize = 100;
const PAGE: usize = 100;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
