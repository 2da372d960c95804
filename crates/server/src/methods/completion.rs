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
    let name = match &asked.reference {
        Reference::Prompt(name) => Some(&**name),
        Reference::Resource(_) => None,
    };
    let Some(known) = server.pending_definitions(name) else {
        return complete_known(context, &asked);
    };
    let (context, owned) = (context.clone(), params.object().to_owned());
    Reply::Later(Box::pin(async move {
        known.await;
        let asked = CompleteParams::from_params(Params::new(Some(owned.as_raw())));
        let asked = asked.map_err(RpcError::invalid_params)?;
        complete_known(&context, &asked).outcome().await
    }))
}

fn complete_known(context: &Context, asked: &CompleteParams<'_>) -> Reply {
    let (server, argument, value) = (context.server(), &asked.argument, &asked.value);
    match &asked.reference {
        Reference::Prompt(name) => match server.prompts().find(context, name) {
            Ok(prompt) => prompt.complete(context, argument, value, asked.resolved),
            Err(error) => Reply::Ready(Err(error)),
        },
        Reference::Resource(uri) => match server.catalog().find_template(context, uri) {
            Ok(template) => template.complete(context, argument, value, asked.resolved),
            Err(error) => server
                .catalog()
                .complete_provided(context, uri, argument, value, asked.resolved)
                .unwrap_or(Reply::Ready(Err(error))),
        },
    }
}
