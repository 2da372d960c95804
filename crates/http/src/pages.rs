//! Pages for people, beside the transports: embedded files that anyone who reaches the server may
//! have. Whatever such a page does, it does as a client.

use std::fmt;

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};

use crate::answer::{Answer, empty, text};

/// Has pages by their paths.
pub trait Pages: fmt::Debug + Send + Sync + 'static {
    /// The page at a path, if there is one. The paths of the transports come first.
    fn find(&self, path: &str) -> Option<Page>;

    /// The Content-Security-Policy that pages are under.
    fn policy(&self) -> &str;
}

/// One page, or something that belongs to it.
#[derive(Clone, Debug)]
pub struct Page {
    kind: &'static str,
    body: Bytes,
    tag: Option<&'static str>,
    zipped: Option<Bytes>,
}

impl Page {
    /// A page of this media type.
    pub fn new(kind: &'static str, body: Bytes) -> Self {
        Self { kind, body, tag: None, zipped: None }
    }

    /// Sets an entity tag, quotes and all, which changes with the body: browsers then ask only
    /// whether they have it already.
    #[must_use]
    pub fn tag(mut self, tag: &'static str) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Adds the body compressed by gzip, for browsers that take it.
    #[must_use]
    pub fn zipped(mut self, zipped: Bytes) -> Self {
        self.zipped = Some(zipped);
        self
    }
}

/// Answers a request for a page, if it is one.
pub(crate) fn answer(
    pages: &dyn Pages,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<Answer> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let page = pages.find(path)?;
    let known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = |tag: &str| {
        known.is_some_and(|known| {
            known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
        })
    };
    let mut answer = if page.tag.is_some_and(is_known) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let zipped = page.zipped.filter(|_| takes_gzip(headers));
        let is_zipped = zipped.is_some();
        let mut answer = text(StatusCode::OK, zipped.unwrap_or(page.body));
        let told = answer.headers_mut();
        told.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
        if is_zipped {
            told.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    };
    let told = answer.headers_mut();
    if let Some(tag) = page.tag {
        told.insert(ETAG, HeaderValue::from_static(tag));
    }
    // What a script may do is decided by the page that loads it.
    if page.kind.starts_with("text/html")
        && let Ok(policy) = HeaderValue::from_str(pages.policy())
    {
        told.insert(CONTENT_SECURITY_POLICY, policy);
    }
    told.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    told.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    told.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    told.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    told.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    Some(answer)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let taken = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|taken| taken.to_str().ok());
    taken.flat_map(|taken| taken.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let name = name.trim();
        (name.eq_ignore_ascii_case("gzip") || name == "*") && weight.trim() != "q=0"
    })
}

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

#[cfg(test)]
mod tests {
    use super::{Page, Pages, answer};
    use bytes::Bytes;
    use hyper::Method;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    #[derive(Debug)]
    struct One;

    impl Pages for One {
        fn find(&self, path: &str) -> Option<Page> {
            let page = Page::new("text/html", Bytes::from_static(b"plain")).tag("\"1\"");
            (path == "/one").then(|| page.zipped(Bytes::from_static(b"zip")))
        }

        fn policy(&self) -> &'static str {
            "default-src 'none'"
        }
    }

    #[test]
    fn pages_are_compressed_and_sent_once() {
        for (method, path, header, expected) in [
            (Method::GET, "/one", ("accept", "*/*"), Some((200, "", Some(5)))),
            (Method::HEAD, "/one", ("accept-encoding", "br, GZIP"), Some((200, "gzip", Some(3)))),
            (Method::GET, "/one", ("accept-encoding", "gzip;q=0"), Some((200, "", Some(5)))),
            (Method::GET, "/one", ("if-none-match", "W/\"0\", \"1\""), Some((304, "", None))),
            (Method::GET, "/one", ("if-none-match", "\"2\""), Some((200, "", Some(5)))),
            (Method::POST, "/one", ("accept", "*/*"), None),
            (Method::GET, "/two", ("accept", "*/*"), None),
        ] {
            let (name, value) = (header.0.parse::<HeaderName>().unwrap(), header.1);
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            let answered = answer(&One, &method, path, &headers);
            let seen = answered.as_ref().map(|answer| {
                let encoding = answer.headers().get("content-encoding");
                let encoding = encoding.map_or("", |value| value.to_str().unwrap());
                let length = hyper::body::Body::size_hint(answer.body()).exact();
                (answer.status().as_u16(), encoding, length.filter(|length| *length > 0))
            });
            assert_eq!(seen, expected, "{method} {path} {header:?}");
            if let Some(answer) = answered {
                assert_eq!(answer.headers()["content-security-policy"], "default-src 'none'");
                assert_eq!(answer.headers()["etag"], "\"1\"");
            }
        }
    }
}
