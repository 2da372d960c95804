//! Server card (SEP-2127, experimental): describes the server to clients that have not connected yet.
//!
//! The card is at `/mcp/server-card`, and the catalogs under `/.well-known` name it. All of them are
//! public, for pages of any origin, and say nothing that `server/discover` would not.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use mcp_flow_proto::model::is_website;
use mcp_flow_server::Server;
use serde_json::{Value, json};

use crate::response::{HttpResponse, empty, method_not_allowed, text};

/// The server card: a name in reverse-DNS notation and texts for people. Version, icons, website and
/// protocol versions are those of the server.
///
/// ```
/// use mcp_flow_http::ServerCard;
///
/// let card = ServerCard::new("com.example/weather", "Forecasts for any place").unwrap();
/// assert!(ServerCard::new("weather", "Forecasts for any place").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCard {
    name: String,
    description: String,
    title: Option<String>,
}

/// A text that cannot be on a server card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadServerCard {
    /// The name is not in reverse-DNS notation.
    #[error(
        "{0:?} is not a name such as com.example/weather: a domain in reverse, a slash and a name"
    )]
    Name(String),
    /// A text is empty or too long.
    #[error("the {0} of a server card has 1 to 100 characters")]
    Text(&'static str),
}

impl ServerCard {
    /// Creates a card with a name such as `com.example/weather`, and a description of at most 100
    /// characters.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Result<Self, BadServerCard> {
        let (name, description) = (name.into(), description.into());
        let is_plain = |part: &str, more: &[u8]| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
            !part.is_empty() && part.bytes().all(allowed)
        };
        let is_name = name.len() <= 200
            && name.split_once('/').is_some_and(|(namespace, name)| {
                is_plain(namespace, b".-") && is_plain(name, b"._-")
            });
        if !is_name {
            return Err(BadServerCard::Name(name));
        }
        check_text("description", &description)?;
        Ok(Self { name, description, title: None })
    }

    /// Sets the display name, of at most 100 characters.
    pub fn title(mut self, title: impl Into<String>) -> Result<Self, BadServerCard> {
        let title = title.into();
        check_text("title", &title)?;
        self.title = Some(title);
        Ok(self)
    }

    /// The card as a document, for a server whose public URL is `base`.
    fn document(&self, server: &Server, base: &str) -> Value {
        let info = server.info();
        let versions = server.versions().supported_statelessly();
        let versions: Vec<_> = versions.iter().map(|revision| revision.name()).collect();
        let mut card = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/v2/server-card.schema.json",
            "name": self.name,
            "version": info.version,
            "description": self.description,
            "remotes": [
                {"type": "streamable-http", "url": format!("{base}/mcp"),
                    "supportedProtocolVersions": versions},
            ],
        });
        if let Some(title) = self.title.as_ref().or(info.title.as_ref()) {
            card["title"] = json!(title);
        }
        if let Some(url) = info.website_url.as_deref().filter(|url| is_website(url)) {
            card["websiteUrl"] = json!(url);
        }
        if !info.icons.is_empty() {
            card["icons"] = json!(info.icons);
        }
        card
    }

    /// The catalog whose only entry is this card.
    fn catalog(&self, base: &str) -> Value {
        let (namespace, name) = self.name.split_once('/').unwrap_or_default();
        let publisher: Vec<_> = namespace.rsplit('.').collect();
        json!({
            "specVersion": "draft",
            "entries": [{
                "identifier": format!("urn:air:{}:{name}", publisher.join(".")),
                "displayName": self.title.as_deref().unwrap_or(name),
                "type": CARD_TYPE,
                "url": format!("{base}{CARD_PATH}"),
            }],
        })
    }
}

fn check_text(what: &'static str, text: &str) -> Result<(), BadServerCard> {
    let is_good = (1..=100).contains(&text.chars().count()) && !text.contains(char::is_control);
    if is_good { Ok(()) } else { Err(BadServerCard::Text(what)) }
}

/// A card and its catalog, encoded once.
#[derive(Debug)]
pub(crate) struct PublishedCard {
    card: Document,
    catalog: Document,
}

#[derive(Debug)]
struct Document {
    kind: &'static str,
    body: Bytes,
    tag: HeaderValue,
}

impl PublishedCard {
    /// Encodes the card of a server at this public URL.
    pub(crate) fn new(card: &ServerCard, server: &Server, base: &str) -> Option<Self> {
        let base = base.trim_end_matches('/');
        Some(Self {
            card: Document::new(CARD_TYPE, &card.document(server, base))?,
            catalog: Document::new("application/json", &card.catalog(base))?,
        })
    }

    /// Serves the documents; `None` for any other path.
    pub(crate) fn serve(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<HttpResponse> {
        let document = match path {
            CARD_PATH => &self.card,
            AI_CATALOG_PATH | MCP_CATALOG_PATH => &self.catalog,
            _ => return None,
        };
        let mut response = match *method {
            Method::GET | Method::HEAD => document.serve(headers),
            Method::OPTIONS => empty(StatusCode::NO_CONTENT),
            _ => return Some(method_not_allowed("GET, HEAD, OPTIONS")),
        };
        let added = response.headers_mut();
        for (name, value) in [
            (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
            (ACCESS_CONTROL_ALLOW_METHODS, "GET"),
            (ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type, Accept, If-None-Match"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ] {
            added.insert(name, HeaderValue::from_static(value));
        }
        Some(response)
    }
}

impl Document {
    fn new(kind: &'static str, value: &Value) -> Option<Self> {
        let body = value.to_string();
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let tag = HeaderValue::from_str(&format!("\"{:016x}\"", hasher.finish())).ok()?;
        Some(Self { kind, body: body.into(), tag })
    }

    fn serve(&self, headers: &HeaderMap) -> HttpResponse {
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|tags| tags.to_str().ok());
        let is_known = known.flat_map(|tags| tags.split(',')).any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag.trim_start_matches("W/").as_bytes() == self.tag.as_bytes()
        });
        let mut response = match is_known {
            true => empty(StatusCode::NOT_MODIFIED),
            false => {
                let mut response = text(StatusCode::OK, self.body.clone());
                let kind = HeaderValue::from_static(self.kind);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
        };
        let added = response.headers_mut();
        added.insert(ETAG, self.tag.clone());
        added.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        response
    }
}

const CARD_TYPE: &str = "application/mcp-server-card+json";

const CARD_PATH: &str = "/mcp/server-card";

const AI_CATALOG_PATH: &str = "/.well-known/ai-catalog.json";

const MCP_CATALOG_PATH: &str = "/.well-known/mcp/catalog.json";

#[cfg(test)]
mod tests {
    use super::{BadServerCard, ServerCard};

    #[test]
    fn names_are_in_reverse_dns_notation() {
        for (name, is_good) in [
            ("com.example/weather", true),
            ("io.github.me/my_server.v2", true),
            ("weather", false),
            ("/weather", false),
            ("com.example/", false),
            ("com.example/a/b", false),
            ("com_example/a", false),
            ("com.example/\u{e9}", false),
        ] {
            assert_eq!(ServerCard::new(name, "x").is_ok(), is_good, "{name}");
        }
        assert!(ServerCard::new(format!("com.example/{}", "a".repeat(200)), "x").is_err());
        for text in ["", &"x".repeat(101), "a\u{1b}[31m"] {
            assert_eq!(
                ServerCard::new("com.example/x", text),
                Err(BadServerCard::Text("description"))
            );
        }
    }
}
