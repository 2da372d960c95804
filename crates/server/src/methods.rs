//! The built-in methods of every server.

mod completion;
mod initialize;
mod logging;
mod prompts;
mod resources;
mod subscriptions;
mod tools;

use std::time::Duration;

use mcp_flow_proto::model::{CacheHint, CacheScope, DiscoverResult, Meta, StatelessMembers};
use mcp_flow_proto::{DecodeError, Params, RpcError, method};
use serde_json::json;

use crate::context::Context;
use crate::handler::Reply;
use crate::revision::add_server_info;
use crate::router::{Era, Router};

/// Registers the built-in methods.
pub(crate) fn add_to(router: &mut Router) {
    router.add_early(method::INITIALIZE, Era::Handshake, initialize::initialize);
    router.add_early(method::PING, Era::Handshake, ping);
    router.add(method::SERVER_DISCOVER, Era::Stateless, discover);
    router.add(method::LOGGING_SET_LEVEL, Era::Handshake, logging::set_level);
    router.add(method::SUBSCRIPTIONS_LISTEN, Era::Stateless, subscriptions::listen);
    router.add(method::TOOLS_LIST, Era::Both, tools::list);
    router.add(method::TOOLS_CALL, Era::Both, tools::call);
    router.add(method::PROMPTS_LIST, Era::Both, prompts::list);
    router.add(method::PROMPTS_GET, Era::Both, prompts::get);
    router.add(method::COMPLETION_COMPLETE, Era::Both, completion::complete);
    router.add(method::RESOURCES_LIST, Era::Both, resources::list);
    router.add(method::RESOURCES_TEMPLATES_LIST, Era::Both, resources::list_templates);
    router.add(method::RESOURCES_READ, Era::Both, resources::read);
    router.add(method::RESOURCES_SUBSCRIBE, Era::Handshake, resources::subscribe);
    router.add(method::RESOURCES_UNSUBSCRIBE, Era::Handshake, resources::unsubscribe);
}

/// Hint for results whose author gives none: lists that are the same for all callers.
const DEFAULT_HINT: CacheHint = CacheHint::public(Duration::from_secs(5 * 60));

/// Methods whose results have caching hints.
pub(crate) const CACHEABLE: [&str; 6] = [
    method::SERVER_DISCOVER,
    method::TOOLS_LIST,
    method::PROMPTS_LIST,
    method::RESOURCES_LIST,
    method::RESOURCES_TEMPLATES_LIST,
    method::RESOURCES_READ,
];

fn ping(context: &Context, _: Params<'_>) -> Reply {
    Reply::Ready(context.reply(&json!({})))
}

fn discover(context: &Context, _: Params<'_>) -> Reply {
    let server = context.server();
    let mut meta = Meta::new();
    add_server_info(&mut meta, server.info_value().clone());
    let hint = server.cache_hint(method::SERVER_DISCOVER).unwrap_or(DEFAULT_HINT);
    Reply::Ready(context.reply(&DiscoverResult {
        result_type: "complete",
        supported_versions: server.versions().supported_statelessly(),
        capabilities: server.capabilities(context.revision()),
        instructions: server.instructions().map(str::to_owned),
        ttl_ms: hint.ttl_ms(),
        cache_scope: hint.scope.name(),
        meta,
    }))
}

/// The cache metadata of a list, in revisions with stateless results.
fn stateless_members(
    context: &Context,
    method: &str,
    is_same_for_all: bool,
) -> Option<StatelessMembers> {
    let hint = context.server().cache_hint(method).unwrap_or(DEFAULT_HINT);
    hinted_members(context, hint, is_same_for_all)
}

/// The cache metadata of a result. Whatever its author says, it is private if callers may get
/// different ones.
fn hinted_members(
    context: &Context,
    hint: CacheHint,
    is_same_for_all: bool,
) -> Option<StatelessMembers> {
    let (server, revision) = (context.server(), context.revision());
    let scope = if is_same_for_all { hint.scope } else { CacheScope::Private };
    revision.is_stateless().then(|| {
        let mut meta = Meta::new();
        add_server_info(&mut meta, server.info_value().clone());
        StatelessMembers { ttl_ms: hint.ttl_ms(), cache_scope: scope.name(), meta }
    })
}

fn bad_cursor_type(error: &DecodeError) -> RpcError {
    RpcError::invalid_params(error.to_string())
}

fn bad_cursor() -> RpcError {
    RpcError::invalid_params("cursor is invalid; list again from the start")
}
