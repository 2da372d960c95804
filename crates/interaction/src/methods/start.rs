//! `interaction.start` (INT-016 to INT-027).

use mcp_flow_engine::{Engine, EngineError, SessionStatus, StartRequest, View};
use mcp_flow_proto::error::UNKNOWN_TOOL;
use mcp_flow_proto::text::unescape_pointer;
use mcp_flow_proto::{Raw, RpcError};
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::event::{Ending, FaultName};
use mcp_flow_session::{InvalidAnswer, Owner, State};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{call_timeout, reply_with};
use crate::backend::{SessionBackend, SessionRef};
use crate::delivery::{Delivery, NextUp};
use crate::fields::Fields;
use crate::interaction::{Interaction, owner, start_request};
use crate::protocol_errors::{NOT_INTERACTIVE, invalid, not_started, timed_out};
use crate::wire;

pub(super) async fn start(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let start = read(&context, &mut fields)?;
    let flow = start.flow.clone();
    let offered =
        interaction.inner.offered(&flow).filter(|_| context.may(PermissionKind::Flow, &flow));
    let Some(offered) = offered else {
        return Err(unknown_flow(&context, &flow));
    };
    check_given(&interaction, &context, &start)?;
    let delivery = interaction.delivery(&context);
    let begun = begin(&interaction, &context, start).await;
    let (view, session) = begun.map_err(|error| not_started(&flow, &error))?;
    check_not_timed_out(&view)?;
    let mut result = json!({"sessionId": view.id, "state": State::Idle.name()});
    let is_sent_later = delivery == Delivery::Push && offered.asks_after_start;
    let question = match &view.status {
        SessionStatus::Waiting(open) if !is_sent_later => Some(open),
        _ => None,
    };
    if let Some(open) = question {
        result["initialPrompt"] = wire::prompt(open);
        interaction.record_delivered(&view, context.client().queue_position());
    }
    let mut meta = json!({"effectiveState": view.state.name()});
    if let Some(millis) = view.inactivity {
        meta["timeout"] = millis.into();
    }
    result["_meta"] = meta;
    match delivery {
        Delivery::Inline => result["next"] = wire::next(&view),
        Delivery::Push if question.is_some() => {
            let client = context.client().outside_the_call();
            interaction.schedule_warning(&view, &client, &owner(&context));
            if let Some(open) = question.filter(|_| view.wakes.is_some()) {
                interaction.deliver(&context, &view, NextUp::Shown(open.clone()));
            }
        }
        Delivery::Push => interaction.deliver(&context, &view, NextUp::of(&view, true)),
    }
    reply_with(&context, result, &session)
}

fn read(context: &Context, fields: &mut Fields) -> Result<StartRequest, RpcError> {
    let mut start = start_request(context, &fields.text("toolName")?);
    start.params = fields.object("initialParams")?.unwrap_or_default();
    start.context = fields.object("context")?.unwrap_or_default();
    start.inactivity = fields.duration("timeout")?;
    Ok(start)
}

/// Validates parameters by the argument schema of the flow, even those whose question comes up
/// later (INT-020). A declared question explains a violation best.
fn check_given(
    interaction: &Interaction,
    context: &Context,
    start: &StartRequest,
) -> Result<(), RpcError> {
    let Some(tool) = context.server().find_tool(&start.flow) else { return Ok(()) };
    let mut given = start.params.clone();
    // A null counts as absent.
    given.retain(|_, value| !value.is_null());
    let given = Value::Object(given).to_string();
    let violations = tool.check(Raw::Json(&given)).err().unwrap_or_default();
    violations.into_iter().next().map_or(Ok(()), |first| {
        let key = unescape_pointer(first.pointer.split('/').nth(1).unwrap_or_default());
        let definition = interaction.engine().flow(&start.flow);
        let asked = definition.as_ref().and_then(|flow| flow.declared(&key));
        let violation = asked.zip(start.params.get(&*key)).map(|(asked, value)| asked.check(value));
        let described = &tool.definition().input_schema["properties"][&*key]["description"];
        let violation = violation.and_then(Result::err).unwrap_or_else(|| InvalidAnswer {
            suggestion: described.as_str().map(|text| format!("It should be: {text}")),
            ..InvalidAnswer::new(first.sentence)
        });
        Err(invalid(&key, &violation))
    })
}

/// Starts the session. A stored one is waited for briefly, and cancelled if the caller goes away
/// meanwhile, since no client would know of it (C-12).
async fn begin(
    interaction: &Interaction,
    context: &Context,
    start: StartRequest,
) -> Result<(View, SessionRef), EngineError> {
    let backend = &interaction.inner.backend;
    let SessionBackend::Stored(engine) = backend else {
        return backend.start(start, call_timeout(context)).await;
    };
    let (mut begun, result) = oneshot::channel();
    let (engine, owner) = (engine.clone(), start.owner.clone());
    let timeout = interaction.inner.timeouts.start;
    tokio::spawn(mcp_flow_telemetry::inherit(async move {
        let mut started = engine.start(start).await;
        if let Ok(view) = &mut started
            && matches!(view.status, SessionStatus::Working(_))
        {
            tokio::select! {
                waited = engine.wait(view.id, &owner, timeout) => {
                    if let Ok(waited) = waited {
                        *view = waited;
                    }
                }
                () = begun.closed() => {}
            }
        }
        if let Err(Ok(view)) = begun.send(started) {
            abandon(&engine, &view, &owner).await;
        }
    }));
    let view = result.await.unwrap_or(Err(EngineError::ShuttingDown))?;
    let session = SessionRef::Id(view.id);
    Ok((view, session))
}

async fn abandon(engine: &Engine, view: &View, owner: &Owner) {
    let reason = Some("the request that started it was cancelled".to_owned());
    // Fails if it has ended already.
    let _ = engine.cancel(view.id, owner, reason).await;
}

/// Fails for a session that ended because an operation timed out (INT-083).
pub(super) fn check_not_timed_out(view: &View) -> Result<(), RpcError> {
    if let SessionStatus::Ended(ended) = &view.status
        && let Ending::Failed(fault) = &ended.ending
        && fault.name == FaultName::Timeout
    {
        return Err(timed_out(&view.id.to_string(), fault));
    }
    Ok(())
}

/// The error for a tool that does not exist, or is no flow (C-44).
fn unknown_flow(context: &Context, name: &str) -> RpcError {
    let short: String = name.chars().take(128).collect();
    let tool = context.server().find_tool(name);
    if tool.is_some_and(|tool| context.may(tool.kind(), &tool.definition().name)) {
        return RpcError::new(NOT_INTERACTIVE)
            .message(format!("Not interactive: {short}"))
            .with("reason", "tool")
            .with("toolName", short)
            .details("This tool asks nothing; use tools/call.");
    }
    RpcError::new(UNKNOWN_TOOL)
        .message(format!("Unknown tool: {short}"))
        .with("toolName", short)
        .with("field", "toolName")
}
