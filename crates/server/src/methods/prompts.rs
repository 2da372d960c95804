//! `prompts/list` and `prompts/get`.

use mcp_flow_proto::model::{CallParams, ListParams, ListResult};
use mcp_flow_proto::{Params, RpcError, method};

use super::{bad_cursor, stateless_members};
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::resource::Access;

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    Reply::Ready(list_page(context, params))
}

fn list_page(context: &Context, params: Params<'_>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let catalog = server.prompts();
    if !catalog.is_offered() {
        return Err(RpcError::method_not_found(method::PROMPTS_LIST));
    }
    let ListParams { cursor } = params
        .decode()
        .map_err(|error| RpcError::invalid_params(format!("cursor must be a string: {error}")))?;
    let prompts = catalog.prompts();
    let page = prompts.page(cursor.as_deref(), server.limits().page, |prompt| {
        catalog.access(context, &prompt.definition().name) >= Access::See
    });
    let page = page.ok_or_else(bad_cursor)?;
    let is_same_for_all = !catalog.has_access_rules() && server.permissions().is_none();
    let scope = if is_same_for_all { "public" } else { "private" };
    context.reply(&ListResult {
        name: "prompts",
        entries: page.entries.iter().map(|prompt| prompt.definition().wire(revision)).collect(),
        next_cursor: page.next_cursor,
        stateless: stateless_members(context, scope),
    })
}

pub(super) fn get(context: &Context, params: Params<'_>) -> Reply {
    let catalog = context.server().prompts();
    if !catalog.is_offered() {
        return Reply::Ready(Err(RpcError::method_not_found(method::PROMPTS_GET)));
    }
    // A prompt is asked for by the same members as a tool.
    let CallParams { name, arguments } = match CallParams::from_params(params) {
        Ok(wanted) => wanted,
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    };
    match catalog.find(context, &name) {
        Ok(prompt) => prompt.get(context, arguments),
        Err(error) => Reply::Ready(Err(error)),
    }
}
