//! `tools/list` and `tools/call`.

use std::sync::Arc;

use mcp_flow_proto::model::{CallParams, ListParams, ListResult, Visibility};
use mcp_flow_proto::{Params, Raw, RpcError, method};

use super::{bad_cursor, bad_cursor_type, stateless_members};
use crate::catalog_source::{Unlisted, find_unprefixed, list_when_known, refuse};
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::permissions::PermissionKind;
use crate::tool::Tool;

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    if !context.server().has_tools() {
        return Reply::Ready(Err(RpcError::method_not_found(method::TOOLS_LIST)));
    }
    match params.decode() {
        Ok(ListParams { cursor }) => {
            list_when_known(context, PermissionKind::Tool, move |context| {
                Reply::Ready(list_page(context, cursor.as_deref()))
            })
        }
        Err(error) => Reply::Ready(Err(bad_cursor_type(&error))),
    }
}

fn list_page(context: &Context, cursor: Option<&str>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let unlisted = server.catalog_source().and_then(|source| source.unlisted(context));
    let tools = server.tools();
    let shows_apps = context.shows_apps();
    let is_listed = |tool: &Tool| {
        // A client without apps would offer the tools of apps to its model.
        let is_usable = shows_apps || Visibility::Model.allows(&tool.definition().meta);
        let is_unlisted = |unlisted: &Unlisted| unlisted(&tool.definition().name);
        is_usable && context.may_call(tool) && !unlisted.as_ref().is_some_and(is_unlisted)
    };
    let page = tools.page(cursor, server.limits().page, is_listed);
    let page = page.ok_or_else(bad_cursor)?;
    // With apps, the list depends on the capabilities of the client.
    let is_same_for_all = server.permissions().is_none() && !server.has_apps();
    let entries = page.entries.iter().map(|tool| {
        let definition = tool.definition();
        let name = server.listed_name(&definition.name);
        let entry = server.dialect().list_entry(definition, name, revision);
        if shows_apps { entry } else { entry.without_meta("ui") }
    });
    context.reply(&ListResult {
        name: "tools",
        entries: entries.collect(),
        next_cursor: page.next_cursor,
        stateless: stateless_members(context, method::TOOLS_LIST, is_same_for_all),
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
    call_named(context, &call.name, call.arguments, Context::call_tool)
}

impl Context {
    /// Calls another tool for this call, with the permissions of its caller. The reply is that of the
    /// other tool.
    pub fn call_other_tool(&self, name: &str, arguments: Raw<'_>) -> Reply {
        call_named(self, name, arguments, |context, tool, arguments| tool.call(context, arguments))
    }
}

/// Calls a tool by name, once its definition is known.
fn call_named(
    context: &Context,
    name: &str,
    arguments: Raw<'_>,
    run: fn(&Context, Arc<Tool>, Raw<'_>) -> Reply,
) -> Reply {
    if let Some(tool) = find(context, name) {
        return run(context, tool, arguments);
    }
    let Some(known) = context.server().pending_definitions(Some(name)) else {
        return Reply::Ready(Err(unknown(context, name)));
    };
    let (context, name, arguments) = (context.clone(), name.to_owned(), arguments.to_owned());
    Reply::Later(Box::pin(async move {
        known.await;
        match find(&context, &name) {
            Some(tool) => run(&context, tool, arguments.as_raw()).outcome().await,
            None => Err(unknown(&context, &name)),
        }
    }))
}

/// The error for a tool that cannot be called.
fn unknown(context: &Context, name: &str) -> RpcError {
    let refused = refuse(context, PermissionKind::Tool, Some(name));
    refused.unwrap_or_else(|| RpcError::unknown_tool(name))
}

/// Finds a tool that the caller may call, by its name, or by the unambiguous part of it that the
/// source of the server's definitions gave it.
///
/// Cloned out of the list before the call: a tool may add and remove tools.
fn find(context: &Context, name: &str) -> Option<Arc<Tool>> {
    let server = context.server();
    let tools = server.tools();
    let is_visible = |tool: &Tool| context.may_call(tool);
    let found = tools.find(name).filter(|tool| is_visible(tool));
    if found.is_some() || server.catalog_source().is_none() {
        return found.cloned();
    }
    find_unprefixed(tools.iter(), |tool| &tool.definition().name, name, is_visible)
}
