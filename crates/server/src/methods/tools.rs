//! `tools/list` and `tools/call`.

use mcp_flow_proto::model::{CallParams, ListParams, ListToolsResult, Meta};
use mcp_flow_proto::{Params, RpcError, method};

use super::CACHE_MS;
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::revision::{add_server_info, result_type};

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    Reply::Ready(list_page(context, params))
}

fn list_page(context: &Context, params: Params<'_>) -> Outcome {
    let server = context.server();
    if !server.has_tools() {
        return Err(RpcError::method_not_found(method::TOOLS_LIST));
    }
    let revision = context.revision();
    let ListParams { cursor } = params
        .decode()
        .map_err(|error| RpcError::invalid_params(format!("cursor must be a string: {error}")))?;
    let tools = server.tools();
    let page = tools.page(cursor.as_deref(), server.limits().page).ok_or_else(|| {
        RpcError::invalid_params("cursor is not one this server gave; list again from the start")
    })?;
    let stateless = revision.is_stateless();
    context.reply(&ListToolsResult {
        result_type: result_type(revision),
        tools: page
            .tools
            .iter()
            .map(|tool| {
                let definition = tool.definition();
                definition.wire(server.listed_name(&definition.name), revision)
            })
            .collect(),
        next_cursor: page.next_cursor,
        ttl_ms: stateless.then_some(CACHE_MS),
        cache_scope: stateless.then_some("public"),
        meta: stateless.then(|| {
            let mut meta = Meta::new();
            add_server_info(&mut meta, server.info_value().clone());
            meta
        }),
    })
}

pub(super) fn call(context: &Context, params: Params<'_>) -> Reply {
    let server = context.server();
    if !server.has_tools() {
        return Reply::Ready(Err(RpcError::method_not_found(method::TOOLS_CALL)));
    }
    let call = match CallParams::from_params(params) {
        Ok(call) => call,
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    };
    // Taken out of the list before it is called: a tool may add and remove tools.
    let tool = server.tools().find(&call.name).cloned();
    match tool {
        Some(tool) => context.call_tool(tool, call.arguments),
        None => Reply::Ready(Err(RpcError::unknown_tool(&call.name))),
    }
}
