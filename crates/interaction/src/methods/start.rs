//! `interaction.start` (INT-016 to INT-027).

use mcp_flow_engine::{Engine, EngineError, Standing, Start, View};
use mcp_flow_proto::error::UNKNOWN_TOOL;
use mcp_flow_proto::text::unescape_pointer;
use mcp_flow_proto::{Raw, RpcError};
use mcp_flow_server::permissions::PermissionKind;
use mcp_flow_server::{Context, Outcome};
use mcp_flow_session::event::{Ending, FaultName};
use mcp_flow_session::{Owner, State, Violation};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::reply;
use crate::delivery::{Delivery, Outlook};
use crate::fault::{NOT_INTERACTIVE, invalid, refused, timed_out};
use crate::fields::Fields;
use crate::interaction::{Interaction, owner};
use crate::wire;

pub(super) async fn start(
    interaction: Interaction,
    context: Context,
    mut fields: Fields,
) -> Outcome {
    let start = read(&context, &mut fields)?;
    let flow = start.flow.clone();
    let offered =
        interaction.inner.flows.get(&flow).filter(|_| context.may(PermissionKind::Flow, &flow));
    let Some(offered) = offered else {
        return Err(no_such_flow(&context, &flow));
    };
    check_given(&context, &start)?;
    let delivery = Delivery::of(&context);
    let begun = begin(&interaction, start).await;
    let view = begun.map_err(|error| refused(&flow, &error))?;
    refuse_timeout(&view)?;
    let mut result = json!({"sessionId": view.id, "state": State::Idle.name()});
    let apart = delivery == Delivery::Push && offered.asks_after_start;
    let question = match &view.standing {
        Standing::Waiting(open) if !apart => Some(open),
        _ => None,
    };
    if let Some(open) = question {
        result["initialPrompt"] = wire::prompt(open);
        interaction.note_shown(&view, context.client().moment());
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
            interaction.warn_in_time(&view, &client, &owner(&context));
        }
        Delivery::Push => interaction.deliver(&context, &view, Outlook::of(&view, true)),
    }
    reply(&context, result)
}

/// What is to be started.
pub(super) fn read(context: &Context, fields: &mut Fields) -> Result<Start, RpcError> {
    let mut start = Start::new(fields.text("toolName")?, owner(context));
    start.params = fields.object("initialParams")?.unwrap_or_default();
    start.context = fields.object("context")?.unwrap_or_default();
    start.inactivity = fields.duration("timeout")?;
    Ok(start)
}

/// Refuses at once what the arguments of the flow do not allow, though it may not be asked for until
/// later (INT-020).
pub(super) fn check_given(context: &Context, start: &Start) -> Result<(), RpcError> {
    let Some(tool) = context.server().find_tool(&start.flow) else { return Ok(()) };
    let mut given = start.params.clone();
    // What is null is not given.
    given.retain(|_, value| !value.is_null());
    let given = Value::Object(given).to_string();
    let violations = tool.check(Raw::Json(&given)).err().unwrap_or_default();
    violations.into_iter().next().map_or(Ok(()), |first| {
        let key = first.pointer.split('/').nth(1).unwrap_or_default();
        Err(invalid(&unescape_pointer(key), &Violation::new(first.sentence)))
    })
}

/// Starts the flow, and waits a little for what it asks, even if the caller goes away meanwhile; what
/// it has begun is then ended again, so that nothing is left that nobody knows of (C-12).
async fn begin(interaction: &Interaction, start: Start) -> Result<View, EngineError> {
    let (mut begun, result) = oneshot::channel();
    let (engine, owner) = (interaction.engine().clone(), start.owner.clone());
    let patience = interaction.inner.patience.start;
    tokio::spawn(async move {
        let mut started = engine.start(start).await;
        if let Ok(view) = &mut started
            && matches!(view.standing, Standing::Working(_))
        {
            tokio::select! {
                waited = engine.wait(view.id, &owner, patience) => {
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
    });
    result.await.unwrap_or(Err(EngineError::ShuttingDown))
}

async fn abandon(engine: &Engine, view: &View, owner: &Owner) {
    let reason = Some("the request that started it was cancelled".to_owned());
    // It may be over already.
    let _ = engine.cancel(view.id, owner, reason).await;
}

/// A flow that did not even get to its first question in time (INT-083).
pub(super) fn refuse_timeout(view: &View) -> Result<(), RpcError> {
    if let Standing::Ended(ended) = &view.standing
        && let Ending::Failed(fault) = &ended.ending
        && fault.name == FaultName::Timeout
    {
        return Err(timed_out(&view.id.to_string(), fault));
    }
    Ok(())
}

/// No tool of this name, or one that asks nothing (C-44).
pub(super) fn no_such_flow(context: &Context, name: &str) -> RpcError {
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
