//! What is too large for a message, at `/download/TOKEN` until it expires.
//!
//! A token cannot be guessed, and is good for the principal it was made for only. What can be read
//! from any place can be fetched again and in parts; anything else is there once.

mod range;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use crate::answer::{Answer, bulk, empty, refusal, wrong_method};
use crate::sessions::new_id;
use range::Wanted;

/// Where downloads are.
pub(crate) const PATH: &str = "/download/";

/// What waits to be fetched.
#[derive(Debug)]
pub(crate) struct Downloads {
    open: Mutex<Open>,
    /// For one principal.
    most: usize,
    life: Duration,
}

#[derive(Debug, Default)]
struct Open {
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
    pub(crate) fn new(most: usize, life: Duration) -> Arc<Self> {
        Arc::new(Self { open: Mutex::default(), most, life })
    }

    /// Keeps something to be fetched, and returns its token. If there is too much, the oldest of
    /// the same principal goes, or of all.
    fn add(&self, principal: &Principal, bulk: Bulk) -> String {
        let token = new_id();
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        let own = open.oldest(self.most, |download| download.principal == *principal);
        let any = open.oldest(MOST, |_| true);
        let evicted = own.or(any).and_then(|token| open.by_token.remove(&token));
        let expires = Instant::now() + self.life;
        let download = Download { principal: principal.clone(), bulk, expires, number };
        open.by_token.insert(token.clone(), download);
        drop(open);
        drop(evicted);
        token
    }

    /// Forgets what has expired.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<_> =
            self.open().by_token.extract_if(|_, download| download.expires <= now).collect();
        drop(expired);
    }

    /// Answers a request for a download.
    pub(crate) fn answer(
        &self,
        method: &Method,
        token: &str,
        headers: &HeaderMap,
        principal: &Principal,
    ) -> Answer {
        if ![Method::GET, Method::HEAD].contains(method) {
            return wrong_method("GET, HEAD");
        }
        let mut open = self.open();
        let is_theirs = |download: &&Download| {
            download.principal == *principal && download.expires > Instant::now()
        };
        let Some(download) = open.by_token.get(token).filter(is_theirs) else {
            let details = "there is no such download, or no more; ask for it again";
            return refusal(StatusCode::NOT_FOUND, &RpcError::invalid_request(details));
        };
        let size = download.bulk.size().filter(|_| download.bulk.is_seekable());
        // There is nothing to compare an If-Range with, so it never holds.
        let range = headers.get(RANGE).filter(|_| !headers.contains_key(IF_RANGE));
        let wanted = match (size, range.and_then(|range| range.to_str().ok())) {
            (Some(size), Some(range)) => Wanted::parse(range, size),
            _ => Wanted::All,
        };
        let head = Head::of(&download.bulk);
        let (status, reader, length, part) = match (wanted, size) {
            (Wanted::Nothing, Some(size)) => {
                let mut answer = empty(StatusCode::RANGE_NOT_SATISFIABLE);
                let range = HeaderValue::from_str(&format!("bytes */{size}"));
                answer.headers_mut().extend(range.ok().map(|range| (CONTENT_RANGE, range)));
                return answer;
            }
            (Wanted::Part(range), Some(size)) => {
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
            None => open.by_token.remove(token).map(|download| download.bulk.into_reader()),
            reader => reader,
        };
        drop(open);
        head.answer(status, reader, length, part)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// The oldest of some, if there are at least so many.
    fn oldest(&self, most: usize, is_one: impl Fn(&Download) -> bool) -> Option<String> {
        let some = || self.by_token.iter().filter(|(_, download)| is_one(download));
        if some().count() < most {
            return None;
        }
        some().min_by_key(|(_, download)| download.number).map(|(token, _)| token.clone())
    }
}

/// What is said of a download before it comes.
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

    fn answer(
        self,
        status: StatusCode,
        reader: Option<BulkReader>,
        length: Option<u64>,
        part: Option<String>,
    ) -> Answer {
        let mut answer = match reader {
            Some(reader) => bulk(reader, length),
            None => empty(status),
        };
        *answer.status_mut() = status;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, self.kind);
        headers.insert(CONTENT_DISPOSITION, self.disposition);
        let ranges = if self.is_seekable { "bytes" } else { "none" };
        let fixed: [(HeaderName, &'static str); 4] = [
            (ACCEPT_RANGES, ranges),
            (CACHE_CONTROL, "private, no-store"),
            // Whatever it is, no browser is to run it as a page of this server.
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CONTENT_SECURITY_POLICY, "sandbox"),
        ];
        headers.extend(fixed.map(|(name, value)| (name, HeaderValue::from_static(value))));
        headers.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        let part = part.and_then(|part| HeaderValue::from_str(&part).ok());
        headers.extend(part.map(|part| (CONTENT_RANGE, part)));
        answer
    }
}

/// Makes links for clients that reach this server by one address.
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

/// What a file name may not hold as it is in a header.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// For all principals: each may hold a file open, of which a process has a thousand by default.
const MOST: usize = 512;
