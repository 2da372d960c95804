//! `prompts/list` and `prompts/get`.

use mcp_flow_proto::model::{CallParams, ListParams, ListResult};
use mcp_flow_proto::{Params, RpcError, method};

use super::{bad_cursor, bad_cursor_type, stateless_members};
use crate::catalog_source::{list_when_known, refuse};
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::permissions::PermissionKind;
use crate::resource::Access;

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    if !context.server().prompts().is_offered() {
        return Reply::Ready(Err(RpcError::method_not_found(method::PROMPTS_LIST)));
    }
    match params.decode() {
        Ok(ListParams { cursor }) => {
            list_when_known(context, PermissionKind::Prompt, move |context| {
                Reply::Ready(list_page(context, cursor.as_deref()))
            })
        }
        Err(error) => Reply::Ready(Err(bad_cursor_type(&error))),
    }
}

fn list_page(context: &Context, cursor: Option<&str>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let catalog = server.prompts();
    let prompts = catalog.prompts();
    let page = prompts.page(cursor, server.limits().page, |prompt| {
        catalog.access(context, &prompt.definition().name) >= Access::See
    });
    let page = page.ok_or_else(bad_cursor)?;
    let is_same_for_all = !catalog.has_access_rules() && server.permissions().is_none();
    context.reply(&ListResult {
        name: "prompts",
        entries: page.entries.iter().map(|prompt| prompt.definition().wire(revision)).collect(),
        next_cursor: page.next_cursor,
        stateless: stateless_members(context, method::PROMPTS_LIST, is_same_for_all),
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
    let refused = |context: &Context, name: &str, error| {
        refuse(context, PermissionKind::Prompt, Some(name)).unwrap_or(error)
    };
    let error = match catalog.find(context, &name) {
        Ok(prompt) => return prompt.get(context, arguments),
        Err(error) => error,
    };
    let Some(known) = context.server().pending_definitions(Some(&name)) else {
        return Reply::Ready(Err(refused(context, &name, error)));
    };
    let (context, name, arguments) = (context.clone(), name.into_owned(), arguments.to_owned());
    Reply::Later(Box::pin(async move {
        known.await;
        match context.server().prompts().find(&context, &name) {
            Ok(prompt) => prompt.get(&context, arguments.as_raw()).outcome().await,
            Err(error) => Err(refused(&context, &name, error)),
        }
    }))
}
