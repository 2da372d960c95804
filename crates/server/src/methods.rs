//! The methods every server has.

mod initialize;
mod logging;
mod subscriptions;
mod tools;

use mcp_flow_proto::model::{DiscoverResult, Meta};
use mcp_flow_proto::{Params, method};
use serde_json::json;

use crate::context::Context;
use crate::handler::Reply;
use crate::revision::add_server_info;
use crate::router::{Era, Router};

/// Adds the methods every server has.
pub(crate) fn add_to(router: &mut Router) {
    router.add_early(method::INITIALIZE, Era::Handshake, initialize::initialize);
    router.add_early(method::PING, Era::Handshake, ping);
    router.add(method::SERVER_DISCOVER, Era::Stateless, discover);
    router.add(method::LOGGING_SET_LEVEL, Era::Handshake, logging::set_level);
    router.add(method::SUBSCRIPTIONS_LISTEN, Era::Stateless, subscriptions::listen);
    router.add(method::TOOLS_LIST, Era::Both, tools::list);
    router.add(method::TOOLS_CALL, Era::Both, tools::call);
}

/// How long clients may keep what only changes with the server itself.
pub(crate) const CACHE_MS: u64 = 5 * 60 * 1000;

fn ping(context: &Context, _: Params<'_>) -> Reply {
    Reply::Ready(context.reply(&json!({})))
}

fn discover(context: &Context, _: Params<'_>) -> Reply {
    let server = context.server();
    let mut meta = Meta::new();
    add_server_info(&mut meta, server.info_value().clone());
    Reply::Ready(context.reply(&DiscoverResult {
        result_type: "complete",
        supported_versions: server.versions().supported_statelessly(),
        capabilities: server.capabilities(context.revision()),
        instructions: server.instructions().map(str::to_owned),
        ttl_ms: CACHE_MS,
        cache_scope: "public",
        meta,
    }))
}
