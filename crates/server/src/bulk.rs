//! Payloads too large for memory: read in pieces and delivered as the transport can.
//!
//! A tool or resource returns a [`Bulk`] regardless of transport. Small ones are sent inline.
//! Larger ones use the [`SideChannel`] of the connection, if its transport has one; without one they
//! are sent inline up to the limit of a result, and fail beyond it.

mod reader;
mod side_channel;

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use mcp_flow_proto::model::{Content, Meta, ResourceContents, ResourceLink};
use serde_json::json;
use tokio::io::AsyncRead;

use crate::context::Context;
use crate::tap::ConnectionTap;

pub use reader::BulkReader;
pub use side_channel::{DeliveryFuture, DeliveryRejected, DeliveryRequest, Location, SideChannel};

/// A payload of any size.
///
/// ```
/// use mcp_flow_server::bulk::Bulk;
/// use mcp_flow_server::{Context, Tool};
/// use serde_json::Value;
///
/// let tool = Tool::builder("logs")
///     .description("Everything that happened")
///     .handler(async |_: Context, _: Value| -> std::io::Result<Bulk> {
///         let file = std::fs::File::open("/var/log/everything.log")?;
///         Ok(Bulk::file("everything.log", file)?.with_mime_type("text/plain"))
///     })
///     .unwrap();
/// ```
pub struct Bulk {
    name: String,
    uri: Option<String>,
    mime_type: Option<String>,
    size: Option<u64>,
    source: Source,
    /// Set for bytes that are delivered inline only.
    is_inline: bool,
    /// Sees what is read to be sent.
    tap: Option<ConnectionTap>,
}

/// The source of the bytes.
enum Source {
    /// A file, which can be read at any offset, repeatedly.
    File(Arc<File>),
    /// Bytes in memory.
    Bytes(Bytes),
    /// A reader, which can be read once: the bytes read so far, and the rest.
    Reader(Bytes, Pin<Box<dyn AsyncRead + Send>>),
}

impl Bulk {
    /// A payload from a reader, which is read once, from its start.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + 'static) -> Self {
        Self::new(name, None, Source::Reader(Bytes::new(), Box::pin(reader)))
    }

    /// A payload from a regular file, at its present length. It can be read at any offset,
    /// repeatedly.
    pub fn file(name: impl Into<String>, file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self::new(name, Some(metadata.len()), Source::File(Arc::new(file))))
    }

    /// A payload from bytes in memory.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::new(name, Some(bytes.len() as u64), Source::Bytes(bytes))
    }

    fn new(name: impl Into<String>, size: Option<u64>, source: Source) -> Self {
        let (uri, mime_type) = (None, None);
        Self { name: name.into(), uri, mime_type, size, source, is_inline: false, tap: None }
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the URI of the resource it is the content of.
    #[must_use]
    pub fn with_uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Sets the number of bytes a reader yields. A reader that yields fewer or more fails.
    #[must_use]
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Delivers the bytes inline, never by the side channel of the transport.
    #[must_use]
    pub fn inline(mut self) -> Self {
        self.is_inline = true;
        self
    }

    /// Shows what is read from now on.
    fn tapped(self, tap: Option<ConnectionTap>) -> Self {
        Self { tap, ..self }
    }

    /// Sets URI and MIME type where they are not set.
    pub(crate) fn or_described_as(mut self, uri: &str, mime_type: Option<&str>) -> Self {
        self.uri.get_or_insert_with(|| uri.to_owned());
        self.mime_type = self.mime_type.or_else(|| mime_type.map(str::to_owned));
        self
    }

    /// The display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The MIME type, if known.
    pub fn mime_type(&self) -> Option<&str> {
        self.mime_type.as_deref()
    }

    /// The number of bytes, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns whether it can be read at any offset, repeatedly.
    pub fn is_seekable(&self) -> bool {
        !matches!(self.source, Source::Reader(..))
    }

    /// Reads a range of a seekable payload; `None` for others. Fails if the file has become too
    /// short.
    pub fn read_range(&self, range: Range<u64>) -> Option<BulkReader> {
        let reader = match &self.source {
            Source::File(file) => {
                let size = self.size.unwrap_or(u64::MAX).min(range.end).saturating_sub(range.start);
                Some(BulkReader::file(file.clone(), range).exactly(size))
            }
            Source::Bytes(bytes) => {
                let end = range.end.min(bytes.len() as u64);
                let start = range.start.min(end);
                let offset = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
                Some(BulkReader::bytes(bytes.slice(offset(start)..offset(end))))
            }
            Source::Reader(..) => None,
        };
        reader.map(|reader| reader.tapped(self.tap.as_ref(), &self.name))
    }

    /// Reads all of it. Fails if the source ends before the known size.
    pub fn into_reader(self) -> BulkReader {
        let reader = match self.source {
            Source::File(file) => BulkReader::file(file, 0..self.size.unwrap_or(u64::MAX)),
            Source::Bytes(bytes) => BulkReader::bytes(bytes),
            Source::Reader(begun, reader) => BulkReader::stream(begun, reader),
        };
        let reader = reader.tapped(self.tap.as_ref(), &self.name);
        match self.size {
            Some(size) => reader.exactly(size),
            None => reader,
        }
    }

    /// Reads all of it into memory, if it has at most `limit` bytes.
    async fn read_up_to(mut self, limit: usize) -> io::Result<Prefix> {
        if self.size.is_some_and(|size| size > limit as u64) {
            return Ok(Prefix::Larger(self));
        }
        let mut begun = Vec::new();
        let wanted = limit as u64 + 1;
        let (mut reader, source) = match self.source {
            Source::File(file) => {
                (BulkReader::file(file.clone(), 0..wanted), Some(Source::File(file)))
            }
            Source::Bytes(bytes) => (BulkReader::bytes(bytes.clone()), Some(Source::Bytes(bytes))),
            Source::Reader(begun, reader) => {
                let reader = BulkReader::stream(begun, reader);
                let reader = match self.size {
                    Some(size) => reader.exactly(size),
                    None => reader,
                };
                (reader, None)
            }
        };
        while begun.len() <= limit
            && let Some(piece) = reader.next().await
        {
            begun.extend_from_slice(&piece?);
        }
        if begun.len() <= limit {
            if self.size.is_some_and(|size| (begun.len() as u64) < size) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let head = Head { uri: self.uri, mime_type: self.mime_type };
            return Ok(Prefix::All(begun, head));
        }
        self.source = match (source, reader.into_stream()) {
            (Some(source), _) => source,
            (None, Some(rest)) => Source::Reader(begun.into(), rest),
            (None, None) => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        // The file may have grown since it was opened.
        if let Source::File(file) = &self.source {
            self.size = Some(file.metadata()?.len());
        }
        Ok(Prefix::Larger(self))
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, size, .. } = self;
        formatter
            .debug_struct("Bulk")
            .field("name", name)
            .field("size", size)
            .finish_non_exhaustive()
    }
}

/// The outcome of reading a limited payload into memory.
enum Prefix {
    All(Vec<u8>, Head),
    Larger(Bulk),
}

/// The metadata of a payload in memory.
struct Head {
    uri: Option<String>,
    mime_type: Option<String>,
}

/// Error while delivering a payload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// It is larger than the inline limit, and this transport has no side channel.
    #[error(
        "{name} is {} long and was not sent, because this server sends at most {limit} bytes over \
         this transport; over HTTP it can be downloaded",
        size_of(*size, *limit)
    )]
    TooLarge {
        /// The name.
        name: String,
        /// The number of bytes, if known.
        size: Option<u64>,
        /// The limit.
        limit: usize,
    },
    /// Reading failed.
    #[error("{name} cannot be read: {source}")]
    Read {
        /// The name.
        name: String,
        /// The cause.
        source: io::Error,
    },
    /// The side channel rejected it.
    #[error("the transport cannot deliver it outside the message: {0}")]
    Rejected(#[from] DeliveryRejected),
}

fn size_of(size: Option<u64>, limit: usize) -> String {
    match size {
        Some(size) => format!("{size} bytes"),
        None => format!("more than {limit} bytes"),
    }
}

/// Decodes text, or returns the bytes. Bytes with a NUL are not text, although UTF-8 allows it:
/// nobody could read it, and JSON escapes take six bytes each.
pub(crate) fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if bytes.contains(&0) {
        return Err(bytes);
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

/// The chosen way of delivery.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// In the message itself.
    Inline { bytes: Vec<u8>, uri: Option<String>, mime_type: Option<String> },
    /// By link, to be downloaded.
    Link(Box<ResourceLink>),
    /// On a stream of the same request.
    Stream { tag: u32, mime_type: String, meta: Meta },
}

/// `_meta` key with the location, name and size of a payload delivered outside its message (C-59).
pub(crate) const DOWNLOAD: &str = "mcp-flow/download";

impl Context {
    /// Delivers a payload of any size as the connection can; the returned content goes into the
    /// result.
    ///
    /// A tool that returns nothing else can return the [`Bulk`] itself.
    pub async fn deliver(&self, bulk: Bulk) -> Result<Content, DeliveryError> {
        Ok(match self.route_bulk(bulk).await? {
            Delivery::Link(link) => Content::ResourceLink(link),
            Delivery::Stream { tag, mime_type, meta } => {
                Content::stream(tag, mime_type).with_meta(meta)
            }
            Delivery::Inline { bytes, uri, mime_type } => match text_of(bytes) {
                Ok(text) => Content::text(text),
                Err(bytes) => {
                    let uri = uri.as_deref().unwrap_or(ResourceContents::INLINE_URI);
                    let resource = ResourceContents::bytes(uri, bytes);
                    let mime_type = mime_type.as_deref().unwrap_or("application/octet-stream");
                    Content::embedded(resource.with_mime_type(mime_type))
                }
            },
        })
    }

    /// Chooses the way of delivery: inline if it is small or there is no side channel.
    pub(crate) async fn route_bulk(&self, bulk: Bulk) -> Result<Delivery, DeliveryError> {
        let limits = self.limits();
        let side_channel = self.side_channel().filter(|_| !bulk.is_inline);
        let possible = side_channel.map(|side_channel| side_channel.check(self.id()));
        let limit =
            if let Some(Ok(())) = possible { limits.inline_bytes } else { limits.result_bytes };
        let name = bulk.name.clone();
        let prefix = bulk.read_up_to(limit).await;
        let bulk = match prefix.map_err(|source| DeliveryError::Read { name, source })? {
            Prefix::All(bytes, Head { uri, mime_type }) => {
                return Ok(Delivery::Inline { bytes, uri, mime_type });
            }
            Prefix::Larger(bulk) => bulk,
        };
        let (name, mime_type, size) = (bulk.name.clone(), bulk.mime_type.clone(), bulk.size);
        let (Some(side_channel), Some(possible)) = (side_channel, possible) else {
            return Err(DeliveryError::TooLarge { name, size, limit });
        };
        let location = match possible {
            Ok(()) => {
                self.call().use_side_channel();
                let request = DeliveryRequest { request: self.id(), principal: self.principal() };
                let location =
                    side_channel.deliver(&request, bulk.tapped(self.content_tap())).await;
                // A call abandoned meanwhile has reported so before this payload was registered.
                if self.call().is_answered() {
                    side_channel.replied(self.id(), false);
                }
                location
            }
            Err(error) => Err(error),
        };
        match location {
            Ok(Location::Link(uri)) => {
                let link = ResourceLink { uri, name, mime_type, size, ..ResourceLink::default() };
                Ok(Delivery::Link(Box::new(link)))
            }
            Ok(Location::Stream(tag)) => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                let mut download = json!({"name": name});
                if let Some(size) = size {
                    download["size"] = size.into();
                }
                let meta = Meta::from_iter([(DOWNLOAD.to_owned(), download)]);
                Ok(Delivery::Stream { tag, mime_type, meta })
            }
            Err(error) => {
                // The call fails with this error, whatever its function returns.
                self.fail_with(error.0.clone());
                Err(error.into())
            }
        }
    }
}
