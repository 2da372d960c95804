//! `tools/list` and `tools/call`.

use mcp_flow_proto::model::{CallParams, ListParams, ListResult};
use mcp_flow_proto::{Params, RpcError, method};

use super::{bad_cursor, stateless_members};
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::revision::Dialect;

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
    let page = tools.page(cursor.as_deref(), server.limits().page, |tool| context.may_call(tool));
    let page = page.ok_or_else(bad_cursor)?;
    let is_same_for_all = server.permissions().is_none();
    let in_full = server.dialect() == Dialect::Seed004;
    let entries = page.entries.iter().map(|tool| {
        let definition = tool.definition();
        let name = server.listed_name(&definition.name);
        if in_full { definition.wire_seed_004(name) } else { definition.wire(name, revision) }
    });
    context.reply(&ListResult {
        name: "tools",
        entries: entries.collect(),
        next_cursor: page.next_cursor,
        stateless: stateless_members(context, if is_same_for_all { "public" } else { "private" }),
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
    // Cloned out of the list before the call: a tool may add and remove tools.
    let tool = server.tools().find(&call.name).cloned();
    match tool.filter(|tool| context.may_call(tool)) {
        Some(tool) => context.call_tool(tool, call.arguments),
        None => Reply::Ready(Err(RpcError::unknown_tool(&call.name))),
    }
}
