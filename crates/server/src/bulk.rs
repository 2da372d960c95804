//! What is too large to be held in memory: read piece by piece, and carried as the transport can.
//!
//! A tool or a resource returns a [`Bulk`] and never cares how it travels. Small ones go inline.
//! What is larger goes by the [`Carrier`] of the connection, if its transport has one; without one
//! it goes inline up to the limit of a result, and past that its sender is told so.

mod carrier;
mod reader;

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

pub use carrier::{CannotCarry, Carried, Carrier, Carrying, Found};
pub use reader::BulkReader;

/// Something to be read, of any size.
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
}

/// Where the bytes come from.
enum Source {
    /// A file, which can be read from any place, and again.
    File(Arc<File>),
    /// What is in memory anyway.
    Bytes(Bytes),
    /// Anything else can be read once: what was read of it already, and the rest.
    Reader(Bytes, Pin<Box<dyn AsyncRead + Send>>),
}

impl Bulk {
    /// What a reader gives. It can be read once, from its beginning.
    pub fn reader(name: impl Into<String>, reader: impl AsyncRead + Send + 'static) -> Self {
        Self::new(name, None, Source::Reader(Bytes::new(), Box::pin(reader)))
    }

    /// What a regular file holds now. It can be read from any place, and again.
    pub fn file(name: impl Into<String>, file: File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self::new(name, Some(metadata.len()), Source::File(Arc::new(file))))
    }

    /// What is in memory already.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::new(name, Some(bytes.len() as u64), Source::Bytes(bytes))
    }

    fn new(name: impl Into<String>, size: Option<u64>, source: Source) -> Self {
        Self { name: name.into(), uri: None, mime_type: None, size, source }
    }

    /// Says what kind of content it is.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Says which resource it is the content of.
    #[must_use]
    pub fn with_uri(mut self, uri: impl Into<String>) -> Self {
        self.uri = Some(uri.into());
        self
    }

    /// Says how many bytes a reader gives. One that gives fewer or more fails.
    #[must_use]
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Fills in what is not said yet.
    pub(crate) fn or_described_as(mut self, uri: &str, mime_type: Option<&str>) -> Self {
        self.uri.get_or_insert_with(|| uri.to_owned());
        self.mime_type = self.mime_type.or_else(|| mime_type.map(str::to_owned));
        self
    }

    /// What to call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of content it is, if known.
    pub fn mime_type(&self) -> Option<&str> {
        self.mime_type.as_deref()
    }

    /// How many bytes there are, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Whether it can be read from any place, and again.
    pub fn is_seekable(&self) -> bool {
        !matches!(self.source, Source::Reader(..))
    }

    /// Reads a part of what is seekable; of anything else there are no parts. A file that has
    /// become too short for it fails to be read.
    pub fn read_range(&self, range: Range<u64>) -> Option<BulkReader> {
        match &self.source {
            Source::File(file) => {
                let size = self.size.unwrap_or(u64::MAX).min(range.end).saturating_sub(range.start);
                Some(BulkReader::file(file.clone(), range).exactly(size))
            }
            Source::Bytes(bytes) => {
                let end = range.end.min(bytes.len() as u64);
                let start = range.start.min(end);
                let place = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
                Some(BulkReader::bytes(bytes.slice(place(start)..place(end))))
            }
            Source::Reader(..) => None,
        }
    }

    /// Reads all of it. Where the size is known, a source that ends before it fails to be read.
    pub fn into_reader(self) -> BulkReader {
        let reader = match self.source {
            Source::File(file) => BulkReader::file(file, 0..self.size.unwrap_or(u64::MAX)),
            Source::Bytes(bytes) => BulkReader::bytes(bytes),
            Source::Reader(begun, reader) => BulkReader::stream(begun, reader),
        };
        match self.size {
            Some(size) => reader.exactly(size),
            None => reader,
        }
    }

    /// Reads as much as is wanted in memory: all of it, if that is no more than `limit` bytes.
    async fn take_up_to(mut self, limit: usize) -> io::Result<Taken> {
        if self.size.is_some_and(|size| size > limit as u64) {
            return Ok(Taken::Larger(self));
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
            return Ok(Taken::All(begun, head));
        }
        self.source = match (source, reader.into_stream()) {
            (Some(source), _) => source,
            (None, Some(rest)) => Source::Reader(begun.into(), rest),
            (None, None) => return Err(io::ErrorKind::UnexpectedEof.into()),
        };
        // A file may have grown since it was opened.
        if let Source::File(file) = &self.source {
            self.size = Some(file.metadata()?.len());
        }
        Ok(Taken::Larger(self))
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

/// What came of reading a limited part into memory.
enum Taken {
    All(Vec<u8>, Head),
    Larger(Bulk),
}

/// What is known of something that is in memory.
struct Head {
    uri: Option<String>,
    mime_type: Option<String>,
}

/// Why something was not delivered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeliveryError {
    /// It is larger than what may be sent inline, and this transport has no other way.
    #[error(
        "{name} is {} long and was not sent, because this server sends at most {limit} bytes over \
         this transport; over HTTP it can be downloaded",
        size_of(*size, *limit)
    )]
    TooLarge {
        /// What it is called.
        name: String,
        /// How long it is, if known.
        size: Option<u64>,
        /// The most that is sent.
        limit: usize,
    },
    /// It could not be read.
    #[error("{name} cannot be read: {source}")]
    Read {
        /// What it is called.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The transport does not take it.
    #[error("it cannot be sent beside the result: {0}")]
    Carry(#[from] CannotCarry),
}

fn size_of(size: Option<u64>, limit: usize) -> String {
    match size {
        Some(size) => format!("{size} bytes"),
        None => format!("more than {limit} bytes"),
    }
}

/// Bytes as the text they are, or as they came. What has a zero in it is no text, though UTF-8 would
/// allow it: nobody could read it, and in JSON each takes six bytes.
pub(crate) fn text_of(bytes: Vec<u8>) -> Result<String, Vec<u8>> {
    if bytes.contains(&0) {
        return Err(bytes);
    }
    String::from_utf8(bytes).map_err(std::string::FromUtf8Error::into_bytes)
}

/// How something is delivered.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// In the message itself.
    Inline { bytes: Vec<u8>, uri: Option<String>, mime_type: Option<String> },
    /// Beside it, to be fetched.
    Link(Box<ResourceLink>),
    /// Beside it, on a stream of the same request.
    Stream { tag: u32, mime_type: String, meta: Meta },
}

/// What a client cannot see of something that travels beside its message, in `_meta`: where it is
/// found, what it is called and how long it is (C-59).
pub(crate) const DOWNLOAD: &str = "mcp-flow/download";

impl Context {
    /// Delivers something of any size to the caller, as the connection can: what this returns goes
    /// into the result.
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

    /// Finds out how something travels: inline if it is small or there is no other way.
    pub(crate) async fn route_bulk(&self, bulk: Bulk) -> Result<Delivery, DeliveryError> {
        let limits = self.limits();
        let carrier = self.carrier();
        let possible = carrier.map(|carrier| carrier.check(self.id()));
        let limit =
            if let Some(Ok(())) = possible { limits.inline_bytes } else { limits.result_bytes };
        let name = bulk.name.clone();
        let taken = bulk.take_up_to(limit).await;
        let bulk = match taken.map_err(|source| DeliveryError::Read { name, source })? {
            Taken::All(bytes, Head { uri, mime_type }) => {
                return Ok(Delivery::Inline { bytes, uri, mime_type });
            }
            Taken::Larger(bulk) => bulk,
        };
        let (name, mime_type, size) = (bulk.name.clone(), bulk.mime_type.clone(), bulk.size);
        let (Some(carrier), Some(possible)) = (carrier, possible) else {
            return Err(DeliveryError::TooLarge { name, size, limit });
        };
        let found = match possible {
            Ok(()) => {
                self.note_carried();
                let request = Carried { request: self.id(), principal: self.principal() };
                let found = carrier.carry(&request, bulk).await;
                // A call that was given up meanwhile has told so before there was anything to tell.
                if self.is_answered() {
                    carrier.replied(self.id(), false);
                }
                found
            }
            Err(error) => Err(error),
        };
        match found {
            Ok(Found::Link(uri)) => {
                let link = ResourceLink { uri, name, mime_type, size, ..ResourceLink::default() };
                Ok(Delivery::Link(Box::new(link)))
            }
            Ok(Found::Stream(tag)) => {
                let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                let mut download = json!({"name": name});
                if let Some(size) = size {
                    download["size"] = size.into();
                }
                let meta = Meta::from_iter([(DOWNLOAD.to_owned(), download)]);
                Ok(Delivery::Stream { tag, mime_type, meta })
            }
            Err(error) => {
                // The call is answered with this very error, whatever its function makes of it.
                self.refuse_with(error.0.clone());
                Err(error.into())
            }
        }
    }
}
