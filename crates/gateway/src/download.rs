//! Downloads that results of upstreams link to.
//!
//! Servers of MCP Flow deliver large content by links that only their client can read. Such content is
//! offered to the caller as large content of the gateway, and is read from the upstream when the caller
//! reads it, in constant memory.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use mcp_flow_client::transport::{ContentStream, Spool, TransportError};
use mcp_flow_proto::RpcError;
use mcp_flow_proto::model::{Content, Meta, ResourceBody, ResourceContents, ResourceLink};
use mcp_flow_server::{Bulk, Context};
use serde_json::json;
use url::Url;

use crate::error;
use crate::isolation::Caller;
use crate::upstream::Upstream;

/// Content of an upstream that is downloaded from it.
#[derive(Debug, PartialEq)]
pub(crate) struct Download {
    url: String,
    name: String,
    mime_type: Option<String>,
    size: Option<u64>,
}

impl Download {
    /// The download that an item of a result links to.
    pub(crate) fn in_content(upstream: &Upstream, content: &Content) -> Option<Self> {
        let Content::ResourceLink(link) = content else { return None };
        let ResourceLink { uri, name, mime_type, size, .. } = &**link;
        let target = upstream.settings.connector.target();
        let (name, mime_type, size) = (name.clone(), mime_type.clone(), *size);
        is_download(target, uri).then(|| Self { url: uri.clone(), name, mime_type, size })
    }

    /// The download that has the contents of a resource.
    pub(crate) fn in_meta(upstream: &Upstream, meta: &Meta) -> Option<Self> {
        let download = meta.get(DOWNLOAD)?;
        let text = |name: &str| download[name].as_str().map(str::to_owned);
        let target = upstream.settings.connector.target();
        let url = text("url").filter(|url| is_download(target, url))?;
        let name = text("name").unwrap_or_default();
        Some(Self { url, name, mime_type: text("mimeType"), size: download["size"].as_u64() })
    }

    /// The content, which is opened when it is first read.
    pub(crate) fn into_bulk(self, upstream: &Arc<Upstream>, context: &Context) -> Bulk {
        let Self { url, name, mime_type, size } = self;
        // Nothing is asked while content is read, so the connection can be shared.
        let caller = Caller::of(context).unasked();
        let bytes = stream::once(open(upstream.clone(), caller, url)).try_flatten().boxed();
        let reader = ContentStream { size: None, mime_type: None, bytes }.into_reader();
        let bulk = Bulk::reader(name, reader);
        let bulk = match mime_type {
            Some(mime_type) => bulk.with_mime_type(mime_type),
            None => bulk,
        };
        match size {
            Some(size) => bulk.with_size(size),
            None => bulk,
        }
    }
}

/// Takes a large item out of a result that exceeds the limit of a message, to be downloaded instead.
pub(crate) fn take_large(content: &mut Content, limit: usize) -> Option<Bulk> {
    let (name, bytes, mime_type) = match content {
        Content::Text { text, .. } if text.len() > limit => {
            ("text", std::mem::take(text).into_bytes(), Some("text/plain"))
        }
        Content::Image { data, mime_type, .. } if data.0.len() > limit => {
            ("image", std::mem::take(&mut data.0), Some(&**mime_type))
        }
        Content::Audio { data, mime_type, .. } if data.0.len() > limit => {
            ("audio", std::mem::take(&mut data.0), Some(&**mime_type))
        }
        Content::Resource { resource, .. } if resource.body.len() > limit => {
            let bytes = match &mut resource.body {
                ResourceBody::Text(text) => std::mem::take(text).into_bytes(),
                ResourceBody::Blob(blob) => std::mem::take(&mut blob.0),
                ResourceBody::Stream(_) => return None,
            };
            let name = resource.uri.rsplit('/').next().unwrap_or_default();
            (name, bytes, resource.mime_type.as_deref())
        }
        _ => return None,
    };
    let bulk = Bulk::bytes(name, bytes);
    Some(match mime_type {
        Some(mime_type) => bulk.with_mime_type(mime_type),
        None => bulk,
    })
}

/// Takes an item of a result whose text or bytes are in a temporary file.
pub(crate) fn take_spooled(spool: &Spool, content: &Content) -> Option<Bulk> {
    match content {
        Content::Text { text, .. } => spooled(spool, text, "text", Some("text/plain")),
        Content::Image { data, mime_type, .. } => {
            spooled(spool, &token(&data.0)?, "image", Some(&**mime_type))
        }
        Content::Audio { data, mime_type, .. } => {
            spooled(spool, &token(&data.0)?, "audio", Some(&**mime_type))
        }
        Content::Resource { resource, .. } => spooled_contents(spool, resource),
        _ => None,
    }
}

/// Takes the contents of a resource that are in a temporary file.
pub(crate) fn spooled_contents(spool: &Spool, contents: &ResourceContents) -> Option<Bulk> {
    let name = contents.uri.rsplit('/').next().unwrap_or_default();
    let mime_type = contents.mime_type.as_deref();
    match &contents.body {
        ResourceBody::Text(text) => spooled(spool, text, name, mime_type),
        ResourceBody::Blob(blob) => spooled(spool, &token(&blob.0)?, name, mime_type),
        ResourceBody::Stream(_) => None,
    }
}

/// The token in the place of bytes, which were decoded with the message.
fn token(bytes: &[u8]) -> Option<String> {
    // Others are longer, or shorter.
    (bytes.len() == 48).then(|| STANDARD.encode(bytes))
}

fn spooled(spool: &Spool, token: &str, name: &str, mime_type: Option<&str>) -> Option<Bulk> {
    let content = spool.take(token)?;
    let length = content.length();
    let reader = content.into_reader();
    let reader =
        reader.inspect_err(|error| tracing::error!("cannot read a temporary file: {error}"));
    let bulk = Bulk::reader(name, reader.ok()?).with_size(length);
    Some(match mime_type {
        Some(mime_type) => bulk.with_mime_type(mime_type),
        None => bulk,
    })
}

type Pieces = BoxStream<'static, Result<Bytes, TransportError>>;

/// Opens a download. Its connection is in use until the content has been read.
async fn open(
    upstream: Arc<Upstream>,
    caller: Caller,
    url: String,
) -> Result<Pieces, TransportError> {
    let unavailable = |error: RpcError| TransportError::Lost(error.text().to_owned());
    let lease = upstream.lease(&caller, None).await.map_err(unavailable)?;
    let link = json!({"type": "resource_link", "uri": url});
    let opened = lease.client().open_content(&link).await;
    let opened = opened
        .map_err(|failure| TransportError::Lost(error::reason(&upstream.settings, &failure)))?;
    let bytes = opened.bytes.map(move |piece| {
        let _in_use = &lease;
        piece
    });
    Ok(bytes.boxed())
}

/// Returns whether a URL is a download of the upstream at this address: of the same origin, with a
/// token at the end. Other links are for the caller.
fn is_download(target: &str, url: &str) -> bool {
    let (Ok(target), Ok(url)) = (Url::parse(target), Url::parse(url)) else { return false };
    let is_http = ["http", "https"].contains(&target.scheme());
    let mut segments = url.path().rsplit('/');
    is_http
        && url.origin() == target.origin()
        && url.query().is_none()
        && segments.next().is_some_and(|token| !token.is_empty())
        && segments.next() == Some("download")
}

/// `_meta` key of contents that are downloaded.
const DOWNLOAD: &str = "mcp-flow/download";

#[cfg(test)]
mod tests {
    use super::is_download;

    #[test]
    fn only_tokens_at_the_origin_of_the_upstream_are_downloads() {
        for (target, url, expected) in [
            ("http://h:1/mcp", "http://h:1/download/abc", true),
            ("https://h/mcp", "https://h:443/tools/download/1.abc", true),
            ("http://h:1/mcp", "http://h:2/download/abc", false),
            ("http://h/mcp", "https://h/download/abc", false),
            ("http://h/mcp", "http://h/download/", false),
            ("http://h/mcp", "http://h/download/a?b", false),
            ("http://h/mcp", "http://h/docs/download.html", false),
            ("npx server", "http://h/download/abc", false),
            ("file:///a", "file:///download/abc", false),
        ] {
            assert_eq!(is_download(target, url), expected, "{url}");
        }
    }
}
