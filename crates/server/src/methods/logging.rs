//! `logging/setLevel`: sets the minimum severity of log messages sent on a connection.

use mcp_flow_proto::model::{LogLevel, SetLevelParams, UnknownLevel};
use mcp_flow_proto::{Params, RpcError};
use serde_json::json;

use crate::context::Context;
use crate::handler::{Outcome, Reply};

pub(super) fn set_level(context: &Context, params: Params<'_>) -> Reply {
    Reply::Ready(update_level(context, params))
}

fn update_level(context: &Context, params: Params<'_>) -> Outcome {
    let level: LogLevel = match params.decode::<SetLevelParams>() {
        Ok(params) => params.level,
        Err(_) => return Err(RpcError::invalid_params(UnknownLevel.to_string())),
    };
    context.call().connection.state().log_level = level;
    context.reply(&json!({}))
}
