//! `subscriptions/listen`: change notifications without a handshake.

use mcp_flow_proto::model::SubscriptionFilter;
use mcp_flow_proto::{Params, RpcError};

use crate::context::Context;
use crate::handler::Reply;

pub(super) fn listen(context: &Context, params: Params<'_>) -> Reply {
    match SubscriptionFilter::from_params(params) {
        // Only topics that can change are acknowledged; resources are looked up when listening
        // begins.
        Ok(filter) => Reply::Listen(SubscriptionFilter {
            topics: filter.topics.intersection(context.server().topics()),
            resources: filter.resources,
        }),
        Err(details) => Reply::Ready(Err(RpcError::invalid_params(details))),
    }
}
