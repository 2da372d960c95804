//! `resources/list`, `resources/templates/list`, `resources/read` and resource subscriptions.

use std::time::Duration;

use mcp_flow_proto::error::PAYLOAD_TOO_LARGE;
use mcp_flow_proto::model::{
    CacheHint, ListParams, ListResult, Meta, ReadResult, ResourceBody, ResourceContents,
    ResourceLink, uri_from_params,
};
use mcp_flow_proto::{Params, RpcError, method};
use serde_json::json;

use super::{bad_cursor, bad_cursor_type, hinted_members, stateless_members};
use crate::bulk::{Bulk, DOWNLOAD, Delivery, DeliveryError, DeliveryRejected, text_of};
use crate::catalog_source::{list_when_known, refuse, when_known};
use crate::connection::subscriptions;
use crate::context::Context;
use crate::handler::{Outcome, Reply};
use crate::permissions::PermissionKind;
use crate::resource::Contents;
use crate::resource::catalog::{ReadReply, read_failure};
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
    list_when_known(context, PermissionKind::Resource, move |context| {
        let context = context.clone();
        Reply::Blocking(Box::new(move || list_page(&context, cursor.as_deref())))
    })
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
        stateless: stateless_members(context, method::RESOURCES_LIST, is_same_for_all(context)),
    })
}

pub(super) fn list_templates(context: &Context, params: Params<'_>) -> Reply {
    match list_cursor(context, method::RESOURCES_TEMPLATES_LIST, params) {
        Ok(cursor) => list_when_known(context, PermissionKind::Resource, move |context| {
            Reply::Ready(list_templates_page(context, cursor.as_deref()))
        }),
        Err(error) => Reply::Ready(Err(error)),
    }
}

fn list_templates_page(context: &Context, cursor: Option<&str>) -> Outcome {
    let (server, revision) = (context.server(), context.revision());
    let catalog = server.catalog();
    let templates = catalog.templates();
    let is_visible = |uri: &str| catalog.access(context, uri) >= Access::See;
    let most = server.limits().page.max(1);
    let mut position = cursor.and_then(Position::from_cursor);
    let mut provided = Vec::new();
    let (mut entries, mut next_cursor) = (Vec::new(), None);
    if position.is_none() {
        let page = templates
            .page(cursor, most, |template| is_visible(&template.definition().uri_template))
            .ok_or_else(bad_cursor)?;
        entries.extend(page.entries.iter().map(|template| template.definition().wire(revision)));
        next_cursor = page.next_cursor;
        position = next_cursor.is_none().then(Position::default);
    }
    if let Some(position) = position {
        let (definitions, next) =
            catalog.list_provided_templates(&position, most - entries.len(), &is_visible);
        provided = definitions;
        next_cursor = next.as_ref().map(Position::to_cursor);
    }
    entries.extend(provided.iter().map(|template| template.wire(revision)));
    context.reply(&ListResult {
        name: "resourceTemplates",
        entries,
        next_cursor,
        stateless: stateless_members(
            context,
            method::RESOURCES_TEMPLATES_LIST,
            is_same_for_all(context),
        ),
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
    let ListParams { cursor } = params.decode().map_err(|error| bad_cursor_type(&error))?;
    Ok(cursor)
}

/// Returns whether all callers see the same resources.
fn is_same_for_all(context: &Context) -> bool {
    let server = context.server();
    !server.catalog().has_access_rules() && server.permissions().is_none()
}

pub(super) fn read(context: &Context, params: Params<'_>) -> Reply {
    let uri = match named_uri(context, method::RESOURCES_READ, params) {
        Ok(uri) => uri,
        Err(error) => return Reply::Ready(Err(error)),
    };
    let first = context.server().catalog().read(context, &uri);
    match (&first, context.server().pending_definitions(None)) {
        // It may be among the definitions that are not known yet.
        (Err(_), Some(known)) => {
            let context = context.clone();
            Reply::Later(Box::pin(async move {
                known.await;
                let found = context.server().catalog().read(&context, &uri);
                reply_read(&context, uri, found).outcome().await
            }))
        }
        _ => reply_read(context, uri, first),
    }
}

fn reply_read(context: &Context, uri: String, found: Result<ReadReply, RpcError>) -> Reply {
    match found {
        Err(error) => {
            let refused = refuse(context, PermissionKind::Resource, Some(&uri));
            Reply::Ready(Err(refused.unwrap_or(error)))
        }
        Ok(ReadReply::Forwarded(reply)) => reply,
        Ok(ReadReply::Contents(reading, hint)) => {
            let context = context.clone();
            Reply::Later(Box::pin(async move {
                let contents = reading.await.map_err(|error| read_failure(&uri, error))?;
                reply(&context, &uri, contents, hint).await
            }))
        }
    }
}

pub(super) fn subscribe(context: &Context, params: Params<'_>) -> Reply {
    let uri = match subscribed_uri(context, method::RESOURCES_SUBSCRIBE, params) {
        Ok(uri) => uri,
        Err(error) => return Reply::Ready(Err(error)),
    };
    let is_known = context.server().catalog().is_known(&uri);
    let subscribe = move |context: &Context| {
        let may_block = context.server().catalog().is_provided(&uri);
        let context = context.clone();
        let subscribe = move || {
            let subscription = context.server().catalog().subscribe(&context, &uri)?;
            subscriptions::subscribe(&context.call().connection, subscription)?;
            context.reply(&json!({}))
        };
        if may_block { Reply::Blocking(Box::new(subscribe)) } else { Reply::Ready(subscribe()) }
    };
    if is_known { subscribe(context) } else { when_known(context, None, subscribe) }
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
    if !context.server().dialect().notifies_of_changes() {
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
impl Context {
    /// Encodes the contents of a resource as the outcome of `resources/read`.
    pub async fn reply_contents(&self, uri: &str, contents: Contents) -> Outcome {
        reply(self, uri, contents, None).await
    }
}

async fn reply(
    context: &Context,
    uri: &str,
    contents: Contents,
    hint: Option<CacheHint>,
) -> Outcome {
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
    // A link or a stream serves one caller, once.
    let is_inline = |entry: &ResourceContents| {
        let is_linked = entry.meta.as_ref().is_some_and(|meta| meta.contains_key(DOWNLOAD));
        !is_linked && !matches!(entry.body, ResourceBody::Stream(_))
    };
    let hint = match entries.iter().all(is_inline) {
        true => hint.or_else(|| context.server().cache_hint(method::RESOURCES_READ)),
        false => None,
    };
    // Contents may differ between callers, unless their author says otherwise.
    let hint = hint.unwrap_or(CacheHint::private(Duration::ZERO));
    let stateless = hinted_members(context, hint, is_same_for_all(context));
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
