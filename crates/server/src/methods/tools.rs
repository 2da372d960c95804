//! `tools/list` and `tools/call`.

use mcp_flow_proto::model::{CallParams, ListParams, ListToolsResult, Meta};
use mcp_flow_proto::{Params, RpcError};

use super::CACHE_MS;
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::revision::{add_server_info, result_type};

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    Reply::Ready(list_page(context, params))
}

fn list_page(context: &Context, params: Params<'_>) -> Outcome {
    let server = context.server();
    let revision = context.revision();
    let ListParams { cursor } = params
        .decode()
        .map_err(|error| RpcError::invalid_params(format!("cursor must be a string: {error}")))?;
    let page = server.tools().page(cursor.as_deref(), server.limits().page).ok_or_else(|| {
        RpcError::invalid_params("cursor is not one this server gave; list again from the start")
    })?;
    let stateless = revision.is_stateless();
    context.reply(&ListToolsResult {
        result_type: result_type(revision),
        tools: page.tools.iter().map(|tool| tool.definition().wire(revision)).collect(),
        next_cursor: page.next_cursor,
        ttl_ms: stateless.then_some(CACHE_MS),
        cache_scope: stateless.then_some("public"),
        meta: stateless.then(|| {
            let mut meta = Meta::new();
            add_server_info(&mut meta, server.info_value(revision));
            meta
        }),
    })
}

pub(super) fn call(context: &Context, params: Params<'_>) -> Reply {
    let call = match CallParams::from_params(params) {
        Ok(call) => call,
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    };
    let Some(tool) = context.server().tools().find(&call.name) else {
        return Reply::Ready(Err(RpcError::unknown_tool(&call.name)));
    };
    tool.call(context, call.arguments)
}
