//! `resources/list`, `resources/templates/list`, `resources/read` and resource subscriptions.

use mcp_flow_proto::error::PAYLOAD_TOO_LARGE;
use mcp_flow_proto::model::{
    ListParams, ListResult, Meta, ReadResult, ResourceBody, ResourceContents, ResourceLink,
    StatelessMembers, uri_from_params,
};
use mcp_flow_proto::{Params, RpcError, method};
use serde_json::json;

use super::{bad_cursor, stateless_members};
use crate::bulk::{Bulk, DOWNLOAD, Delivery, DeliveryError, DeliveryRejected, text_of};
use crate::connection::subscriptions;
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::resource::Contents;
use crate::resource::catalog::read_failure;
use crate::resource::provider::Position;
use crate::resource::{Access, ReadError};

pub(super) fn list(context: &Context, params: Params<'_>) -> Reply {
    let cursor = match list_cursor(context, method::RESOURCES_LIST, params) {
        Ok(cursor) => cursor,
        Err(error) => return Reply::Ready(Err(error)),
    };
    if !context.server().catalog().has_providers() {
        return Reply::Ready(list_page(context, cursor.as_deref()));
    }
    let context = context.clone();
    Reply::Blocking(Box::new(move || list_page(&context, cursor.as_deref())))
}

/// Lists one page: registered resources first, then those of providers.
fn list_page(context: &Context, cursor: Option<&str>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let (catalog, most) = (server.catalog(), server.limits().page.max(1));
    let is_visible = |uri: &str| catalog.access(context, uri) >= Access::See;
    let resources = catalog.resources();
    let mut position = cursor.and_then(Position::from_cursor);
    let mut provided = Vec::new();
    let (mut entries, mut next_cursor) = (Vec::new(), None);
    if position.is_none() {
        let page = resources
            .page(cursor, most, |resource| is_visible(&resource.definition().uri))
            .ok_or_else(bad_cursor)?;
        entries.extend(page.entries.iter().map(|resource| resource.definition().wire(revision)));
        next_cursor = page.next_cursor;
        position = next_cursor.is_none().then(Position::default);
    }
    if let Some(position) = position {
        let (definitions, next) =
            catalog.list_provided(server, position, most - entries.len(), &is_visible);
        provided = definitions;
        next_cursor = next.as_ref().map(Position::to_cursor);
    }
    entries.extend(provided.iter().map(|resource| resource.wire(revision)));
    context.reply(&ListResult {
        name: "resources",
        entries,
        next_cursor,
        stateless: stateless_members(context, scope(context)),
    })
}

pub(super) fn list_templates(context: &Context, params: Params<'_>) -> Reply {
    let cursor = list_cursor(context, method::RESOURCES_TEMPLATES_LIST, params);
    Reply::Ready(cursor.and_then(|cursor| list_templates_page(context, cursor.as_deref())))
}

fn list_templates_page(context: &Context, cursor: Option<&str>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let catalog = server.catalog();
    let templates = catalog.templates();
    let is_visible = |uri: &str| catalog.access(context, uri) >= Access::See;
    let page = templates
        .page(cursor, server.limits().page, |template| {
            is_visible(&template.definition().uri_template)
        })
        .ok_or_else(bad_cursor)?;
    let entries =
        page.entries.iter().map(|template| template.definition().wire(revision)).collect();
    context.reply(&ListResult {
        name: "resourceTemplates",
        entries,
        next_cursor: page.next_cursor,
        stateless: stateless_members(context, scope(context)),
    })
}

fn list_cursor(
    context: &Context,
    method: &str,
    params: Params<'_>,
) -> Result<Option<String>, RpcError> {
    if !context.server().catalog().is_offered() {
        return Err(RpcError::method_not_found(method));
    }
    let ListParams { cursor } = params
        .decode()
        .map_err(|error| RpcError::invalid_params(format!("cursor must be a string: {error}")))?;
    Ok(cursor)
}

/// The cache scope of a list: public unless it differs between callers.
fn scope(context: &Context) -> &'static str {
    let server = context.server();
    let is_same_for_all = !server.catalog().has_access_rules() && server.permissions().is_none();
    if is_same_for_all { "public" } else { "private" }
}

pub(super) fn read(context: &Context, params: Params<'_>) -> Reply {
    let uri = match named_uri(context, method::RESOURCES_READ, params) {
        Ok(uri) => uri,
        Err(error) => return Reply::Ready(Err(error)),
    };
    match context.server().catalog().read(context, &uri) {
        Err(error) => Reply::Ready(Err(error)),
        Ok(reading) => {
            let context = context.clone();
            Reply::Later(Box::pin(async move {
                let contents = reading.await.map_err(|error| read_failure(&uri, error))?;
                reply(&context, &uri, contents).await
            }))
        }
    }
}

pub(super) fn subscribe(context: &Context, params: Params<'_>) -> Reply {
    let uri = match subscribed_uri(context, method::RESOURCES_SUBSCRIBE, params) {
        Ok(uri) => uri,
        Err(error) => return Reply::Ready(Err(error)),
    };
    let may_block = context.server().catalog().is_provided(&uri);
    let context = context.clone();
    let subscribe = move || {
        let subscription = context.server().catalog().subscribe(&context, &uri)?;
        subscriptions::subscribe(&context.call().connection, subscription)?;
        context.reply(&json!({}))
    };
    if may_block { Reply::Blocking(Box::new(subscribe)) } else { Reply::Ready(subscribe()) }
}

pub(super) fn unsubscribe(context: &Context, params: Params<'_>) -> Reply {
    // An unknown subscription is not reported: it would reveal nothing new.
    Reply::Ready(subscribed_uri(context, method::RESOURCES_UNSUBSCRIBE, params).and_then(|uri| {
        subscriptions::unsubscribe(&context.call().connection, &uri);
        context.reply(&json!({}))
    }))
}

/// Reads the URI of a subscription, on a server that declares subscriptions.
fn subscribed_uri(context: &Context, method: &str, params: Params<'_>) -> Result<String, RpcError> {
    if !context.server().dialect().has_subscriptions() {
        return Err(RpcError::method_not_found(method));
    }
    named_uri(context, method, params)
}

fn named_uri(context: &Context, method: &str, params: Params<'_>) -> Result<String, RpcError> {
    if !context.server().catalog().is_offered() {
        return Err(RpcError::method_not_found(method));
    }
    uri_from_params(params).map(Into::into).map_err(RpcError::invalid_params)
}

/// Replies with the contents of a resource, each entry inline if it is small enough.
async fn reply(context: &Context, uri: &str, contents: Contents) -> Outcome {
    let entries = match contents {
        Contents::Bulk(bulk) => vec![deliver(context, uri, bulk).await?],
        Contents::Entries(entries) => {
            let mut delivered = Vec::with_capacity(entries.len());
            for entry in entries {
                delivered.push(deliver_entry(context, uri, entry).await?);
            }
            delivered
        }
    };
    let revision = context.revision();
    // Contents may differ between callers.
    let stateless = stateless_members(context, "private");
    let stateless = stateless.map(|members| StatelessMembers { ttl_ms: 0, ..members });
    let payload = context.reply(&ReadResult { contents: &entries, revision, stateless })?;
    let (size, limit) = (payload.bytes.len(), context.limits().result_bytes);
    if size > limit { Err(too_large(uri, Some(size as u64), limit)) } else { Ok(payload) }
}

/// Delivers an entry in memory by the side channel if it is large and there is one.
async fn deliver_entry(
    context: &Context,
    uri: &str,
    entry: ResourceContents,
) -> Result<ResourceContents, RpcError> {
    if context.side_channel().is_none() || entry.body.len() <= context.limits().inline_bytes {
        return Ok(entry);
    }
    let bytes = match entry.body {
        ResourceBody::Text(text) => text.into_bytes(),
        ResourceBody::Blob(blob) => blob.0,
        ResourceBody::Stream(_) => return Ok(entry),
    };
    let name = entry.uri.rsplit('/').next().unwrap_or_default().to_owned();
    let bulk = Bulk::bytes(name, bytes).or_described_as(&entry.uri, entry.mime_type.as_deref());
    deliver(context, uri, bulk).await
}

/// Chooses how the contents of a resource are delivered.
async fn deliver(context: &Context, uri: &str, bulk: Bulk) -> Result<ResourceContents, RpcError> {
    let delivery = context.route_bulk(bulk).await.map_err(|error| match error {
        DeliveryError::TooLarge { size, limit, .. } => too_large(uri, size, limit),
        DeliveryError::Rejected(DeliveryRejected(error)) => error,
        error => read_failure(uri, ReadError::Failed(error.to_string())),
    })?;
    Ok(match delivery {
        Delivery::Link(link) => linked(uri, &link),
        Delivery::Stream { tag, mime_type, meta } => ResourceContents {
            meta: Some(Box::new(meta)),
            ..ResourceContents::stream(uri, tag).with_mime_type(mime_type)
        },
        Delivery::Inline { bytes, uri: own, mime_type } => {
            let uri = own.as_deref().unwrap_or(uri);
            let contents = match text_of(bytes) {
                Ok(text) => ResourceContents::text(uri, text),
                Err(bytes) => ResourceContents::bytes(uri, bytes),
            };
            ResourceContents { mime_type, ..contents }
        }
    })
}

/// The stand-in for contents to be downloaded: a list of one URI (RFC 2483), so that no program
/// mistakes it for the contents, and the same in `_meta`.
fn linked(uri: &str, link: &ResourceLink) -> ResourceContents {
    let size = link.size.map_or_else(|| "large".to_owned(), |size| format!("{size} bytes long"));
    let text = format!("# {uri} is {size}; download it from here:\r\n{}\r\n", link.uri);
    let mut download = json!({"url": link.uri});
    for (name, value) in [
        ("mimeType", link.mime_type.as_deref().map(Into::into)),
        ("size", link.size.map(Into::into)),
    ] {
        if let Some(value) = value {
            download[name] = value;
        }
    }
    let meta = Meta::from_iter([(DOWNLOAD.to_owned(), download)]);
    ResourceContents {
        meta: Some(Box::new(meta)),
        ..ResourceContents::text(uri, text).with_mime_type("text/uri-list")
    }
}

/// PAT-024: the contents exceed the result limit.
fn too_large(uri: &str, size: Option<u64>, limit: usize) -> RpcError {
    let error = RpcError::new(PAYLOAD_TOO_LARGE)
        .message(format!("Resource too large: the limit is {limit} bytes"))
        .with("limit", limit)
        .with("uri", uri);
    match size {
        Some(size) => error.with("size", size),
        None => error,
    }
}
