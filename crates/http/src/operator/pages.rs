//! Web pages beside the transports: embedded files served without authentication. A page acts as an
//! MCP client like any other.

use std::fmt;

use bytes::Bytes;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode, Uri};

use crate::response::{HttpResponse, empty, text};

/// Source of web pages by path.
pub trait StaticPages: fmt::Debug + Send + Sync + 'static {
    /// Returns the page at a path, if there is one. It takes precedence over the transports.
    fn find(&self, path: &str) -> Option<Page>;

    /// Returns the Content-Security-Policy of the HTML page at a path.
    fn policy(&self, path: &str) -> &str;
}

/// One page, or an asset of one.
#[derive(Clone, Debug)]
pub struct Page {
    kind: &'static str,
    body: Bytes,
    tag: Option<&'static str>,
    zipped: Option<Bytes>,
}

impl Page {
    /// Creates a page of this media type.
    pub fn new(kind: &'static str, body: Bytes) -> Self {
        Self { kind, body, tag: None, zipped: None }
    }

    /// Sets the ETag, including its quotes. It must change with the body; browsers then revalidate
    /// instead of downloading again.
    #[must_use]
    pub fn tag(mut self, tag: &'static str) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Adds the gzip-compressed body, for browsers that accept it.
    #[must_use]
    pub fn zipped(mut self, zipped: Bytes) -> Self {
        self.zipped = Some(zipped);
        self
    }
}

/// Pages that a browser visits once, such as the end of a login. They are served without authentication,
/// and never cached.
pub trait VisitedPages: fmt::Debug + Send + Sync + 'static {
    /// Visits the page at a path with a query, which may be empty, and returns its HTML: `Err` if it is
    /// not valid any more. `None` if the path is none of these.
    fn visit(&self, path: &str, query: &str) -> Option<Result<String, String>>;
}

/// Serves a visited page, or returns `None` if the request is not for one.
pub(crate) fn visit(pages: &dyn VisitedPages, method: &Method, uri: &Uri) -> Option<HttpResponse> {
    if *method != Method::GET {
        return None;
    }
    let (status, html) = match pages.visit(uri.path(), uri.query().unwrap_or_default())? {
        Ok(html) => (StatusCode::OK, html),
        Err(html) => (StatusCode::NOT_FOUND, html),
    };
    let mut response = text(status, html);
    let added = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        // The URL may contain a code.
        (REFERRER_POLICY, "no-referrer"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        added.insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

/// Serves a page, or returns `None` if the request is not for one.
pub(crate) fn serve(
    pages: &dyn StaticPages,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Option<HttpResponse> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let page = pages.find(path)?;
    let cached = headers.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let is_cached = |tag: &str| {
        cached.is_some_and(|tags| {
            tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
        })
    };
    let mut response = if page.tag.is_some_and(is_cached) {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        let zipped = page.zipped.filter(|_| accepts_gzip(headers));
        let is_zipped = zipped.is_some();
        let mut response = text(StatusCode::OK, zipped.unwrap_or(page.body));
        let added = response.headers_mut();
        added.insert(CONTENT_TYPE, HeaderValue::from_static(page.kind));
        if is_zipped {
            added.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    };
    let added = response.headers_mut();
    if let Some(tag) = page.tag {
        added.insert(ETAG, HeaderValue::from_static(tag));
    }
    // The policy of a script is that of the page that loads it.
    if page.kind.starts_with("text/html")
        && let Ok(policy) = HeaderValue::from_str(pages.policy(path))
    {
        added.insert(CONTENT_SECURITY_POLICY, policy);
    }
    added.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    added.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    added.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    added.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    added.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    Some(response)
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let name = name.trim();
        (name.eq_ignore_ascii_case("gzip") || name == "*") && weight.trim() != "q=0"
    })
}

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

#[cfg(test)]
mod tests {
    use super::{Page, StaticPages, serve};
    use bytes::Bytes;
    use hyper::Method;
    use hyper::header::{HeaderMap, HeaderName, HeaderValue};

    #[derive(Debug)]
    struct One;

    impl StaticPages for One {
        fn find(&self, path: &str) -> Option<Page> {
            let page = Page::new("text/html", Bytes::from_static(b"plain")).tag("\"1\"");
            (path == "/one").then(|| page.zipped(Bytes::from_static(b"zip")))
        }

        fn policy(&self, _: &str) -> &'static str {
            "default-src 'none'"
        }
    }

    #[test]
    fn pages_are_compressed_and_revalidated() {
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
            let served = serve(&One, &method, path, &headers);
            let seen = served.as_ref().map(|response| {
                let encoding = response.headers().get("content-encoding");
                let encoding = encoding.map_or("", |value| value.to_str().unwrap());
                let length = hyper::body::Body::size_hint(response.body()).exact();
                (response.status().as_u16(), encoding, length.filter(|length| *length > 0))
            });
            assert_eq!(seen, expected, "{method} {path} {header:?}");
            if let Some(response) = served {
                assert_eq!(response.headers()["content-security-policy"], "default-src 'none'");
                assert_eq!(response.headers()["etag"], "\"1\"");
            }
        }
    }
}
