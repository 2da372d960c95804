//! `subscriptions/listen`: change notifications without a handshake.

use mcp_flow_proto::model::{SubscriptionFilter, TASKS_EXTENSION};
use mcp_flow_proto::{Params, RpcError};

use crate::context::Context;
use crate::handler::Reply;

pub(super) fn listen(context: &Context, params: Params<'_>) -> Reply {
    let mut filter = match SubscriptionFilter::from_params(params) {
        Ok(filter) => filter,
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    };
    // Only topics that can change are acknowledged; resources and tasks are looked up when listening
    // begins.
    filter.topics = filter.topics.intersection(context.server().topics());
    if context.server().tasks().source.is_none() {
        filter.tasks = None;
    }
    match filter.tasks.as_ref().map(|_| context.require_client_extension(TASKS_EXTENSION)) {
        Some(Err(error)) => Reply::Ready(Err(error)),
        _ => Reply::Listen(filter),
    }
}
