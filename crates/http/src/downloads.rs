//! Downloads at `/download/TOKEN`: bulk content too large for a message, until it expires.
//!
//! Tokens are random, and valid only for the principal they were created for. Seekable content can be
//! fetched repeatedly and by range; a stream can be fetched once.

mod range;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Principal;
use mcp_flow_server::bulk::{
    Bulk, BulkReader, DeliveryFuture, DeliveryRequest, Location, SideChannel,
};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use crate::cluster::{ClusterNodes, new_node_id};
use crate::response::{HttpResponse, bulk, empty, method_not_allowed, rejection};
use range::RequestedRange;

/// Path prefix of downloads.
pub(crate) const PATH: &str = "/download/";

/// Pending downloads by token.
#[derive(Debug)]
pub(crate) struct Downloads {
    pending: Mutex<Pending>,
    /// Limit for each principal.
    limit: usize,
    lifetime: Duration,
    /// The other nodes, which forward requests for downloads of this one.
    cluster: Option<Arc<dyn ClusterNodes>>,
}

#[derive(Debug, Default)]
struct Pending {
    by_token: HashMap<String, Download>,
    last: u64,
}

#[derive(Debug)]
struct Download {
    principal: Principal,
    bulk: Bulk,
    expires: Instant,
    number: u64,
}

impl Downloads {
    pub(crate) fn new(
        limit: usize,
        lifetime: Duration,
        cluster: Option<Arc<dyn ClusterNodes>>,
    ) -> Arc<Self> {
        Arc::new(Self { pending: Mutex::default(), limit, lifetime, cluster })
    }

    /// Adds a download and returns its token. At a limit, the oldest download of the principal, or
    /// of all, is evicted.
    fn add(&self, principal: &Principal, bulk: Bulk) -> String {
        let token = new_node_id(self.cluster.as_deref());
        let mut pending = self.pending.lock();
        pending.last += 1;
        let number = pending.last;
        let own = pending.oldest(self.limit, |download| download.principal == *principal);
        let any = pending.oldest(TOTAL_LIMIT, |_| true);
        let evicted = own.or(any).and_then(|token| pending.by_token.remove(&token));
        let expires = Instant::now() + self.lifetime;
        let download = Download { principal: principal.clone(), bulk, expires, number };
        pending.by_token.insert(token.clone(), download);
        drop(pending);
        drop(evicted);
        token
    }

    /// Removes expired downloads.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut pending = self.pending.lock();
        let expired: Vec<_> =
            pending.by_token.extract_if(|_, download| download.expires <= now).collect();
        drop(pending);
        drop(expired);
    }

    /// Serves a request for a download.
    pub(crate) fn serve(
        &self,
        method: &Method,
        token: &str,
        headers: &HeaderMap,
        principal: &Principal,
    ) -> HttpResponse {
        if ![Method::GET, Method::HEAD].contains(method) {
            return method_not_allowed("GET, HEAD");
        }
        let mut pending = self.pending.lock();
        let is_theirs = |download: &&Download| {
            download.principal == *principal && download.expires > Instant::now()
        };
        let Some(download) = pending.by_token.get(token).filter(is_theirs) else {
            return not_found();
        };
        let size = download.bulk.size().filter(|_| download.bulk.is_seekable());
        // Downloads have no validator, so If-Range never matches.
        let range = headers.get(RANGE).filter(|_| !headers.contains_key(IF_RANGE));
        let requested = match (size, range.and_then(|range| range.to_str().ok())) {
            (Some(size), Some(range)) => RequestedRange::parse(range, size),
            _ => RequestedRange::All,
        };
        let head = Head::of(&download.bulk);
        let (status, reader, length, part) = match (requested, size) {
            (RequestedRange::Unsatisfiable, Some(size)) => {
                let mut response = empty(StatusCode::RANGE_NOT_SATISFIABLE);
                let range = HeaderValue::from_str(&format!("bytes */{size}"));
                response.headers_mut().extend(range.ok().map(|range| (CONTENT_RANGE, range)));
                return response;
            }
            (RequestedRange::Part(range), Some(size)) => {
                let part = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                let length = range.end - range.start;
                let reader = download.bulk.read_range(range);
                (StatusCode::PARTIAL_CONTENT, reader, Some(length), Some(part))
            }
            (_, Some(size)) => {
                (StatusCode::OK, download.bulk.read_range(0..size), Some(size), None)
            }
            (_, None) => (StatusCode::OK, None, download.bulk.size(), None),
        };
        let reader = match reader {
            _ if method == Method::HEAD => None,
            None => pending.by_token.remove(token).map(|download| download.bulk.into_reader()),
            reader => reader,
        };
        drop(pending);
        head.into_response(status, reader, length, part)
    }
}

/// Builds the response to a token that is unknown, or not of this principal.
pub(crate) fn not_found() -> HttpResponse {
    let details = "there is no such download, or no more; ask for it again";
    rejection(StatusCode::NOT_FOUND, &RpcError::invalid_request(details))
}

impl Pending {
    /// Returns the token of the oldest matching download, if at least `limit` match.
    fn oldest(&self, limit: usize, matches: impl Fn(&Download) -> bool) -> Option<String> {
        let matching = || self.by_token.iter().filter(|(_, download)| matches(download));
        if matching().count() < limit {
            return None;
        }
        matching().min_by_key(|(_, download)| download.number).map(|(token, _)| token.clone())
    }
}

/// Header values derived from the content.
struct Head {
    kind: HeaderValue,
    disposition: HeaderValue,
    is_seekable: bool,
}

impl Head {
    fn of(bulk: &Bulk) -> Self {
        let kind = bulk.mime_type().and_then(|kind| HeaderValue::from_str(kind).ok());
        let name = utf8_percent_encode(bulk.name(), ESCAPED);
        let disposition = HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{name}"));
        Self {
            kind: kind.unwrap_or(HeaderValue::from_static("application/octet-stream")),
            disposition: disposition.unwrap_or(HeaderValue::from_static("attachment")),
            is_seekable: bulk.is_seekable(),
        }
    }

    fn into_response(
        self,
        status: StatusCode,
        reader: Option<BulkReader>,
        length: Option<u64>,
        part: Option<String>,
    ) -> HttpResponse {
        let mut response = match reader {
            Some(reader) => bulk(reader, length),
            None => empty(status),
        };
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(CONTENT_DISPOSITION, self.disposition);
        let ranges = if self.is_seekable { "bytes" } else { "none" };
        let fixed: [(HeaderName, &'static str); 4] = [
            (ACCEPT_RANGES, ranges),
            (CACHE_CONTROL, "private, no-store"),
            // Keeps browsers from running the content as a page of this server.
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, "sandbox"),
        ];
        headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
        headers.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        let part = part.and_then(|part| HeaderValue::from_str(&part).ok());
        headers.extend(part.map(|part| (CONTENT_RANGE, part)));
        response
    }
}

/// Creates download links below one base URL.
#[derive(Debug)]
pub(crate) struct Links {
    downloads: Arc<Downloads>,
    base: String,
}

impl Links {
    pub(crate) fn new(downloads: Arc<Downloads>, base: String) -> Self {
        Self { downloads, base }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }
}

impl SideChannel for Links {
    fn deliver<'a>(&'a self, request: &'a DeliveryRequest<'a>, bulk: Bulk) -> DeliveryFuture<'a> {
        let token = self.downloads.add(request.principal, bulk);
        let found = Location::Link(format!("{}{PATH}{token}", self.base));
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// Characters to escape in a file name (RFC 5987).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Limit for all principals together: each download may hold a file open, and processes have about
/// a thousand file descriptors by default.
const TOTAL_LIMIT: usize = 512;
