//! `subscriptions/listen`: being told of changes without a handshake.

use mcp_flow_proto::model::Topics;
use mcp_flow_proto::{Params, RpcError};

use crate::context::Context;
use crate::handler::Reply;

pub(super) fn listen(context: &Context, params: Params<'_>) -> Reply {
    match Topics::from_params(params) {
        // Only what can happen is agreed to.
        Ok(topics) => Reply::Listen(Topics {
            tools_list_changed: topics.tools_list_changed && context.server().has_tools(),
        }),
        Err(details) => Reply::Ready(Err(RpcError::invalid_params(details))),
    }
}
