//! `completion/complete`.

use mcp_flow_proto::model::{CompleteParams, Reference};
use mcp_flow_proto::{Params, RpcError, method};

use crate::context::Context;
use crate::handler::Reply;

pub(super) fn complete(context: &Context, params: Params<'_>) -> Reply {
    let server = context.server();
    if !server.has_completions() {
        return Reply::Ready(Err(RpcError::method_not_found(method::COMPLETION_COMPLETE)));
    }
    let asked = match CompleteParams::from_params(params) {
        Ok(asked) => asked,
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    };
    match &asked.reference {
        Reference::Prompt(name) => match server.prompts().find(context, name) {
            Ok(prompt) => prompt.complete(context, &asked.argument, &asked.value, asked.resolved),
            Err(error) => Reply::Ready(Err(error)),
        },
        Reference::Resource(uri) => match server.catalog().find_template(context, uri) {
            Ok(template) => {
                template.complete(context, &asked.argument, &asked.value, asked.resolved)
            }
            Err(error) => Reply::Ready(Err(error)),
        },
    }
}
