//! How clients find out who gives out tokens for this server: protected-resource metadata
//! (RFC 9728), as the authorization pages of the protocol ask for.

use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, StatusCode};
use mcp_flow_server::identity::Terms;
use serde_json::json;

use crate::answer::{Answer, json, wrong_method};

/// Whether there is anything to find out: tokens that were handed over by hand have no issuer.
pub(crate) fn is_offered(terms: &Terms) -> bool {
    !terms.authorization_servers.is_empty()
}

/// Whether the metadata is at a path: that of the server as a whole, or of its endpoint, under
/// whatever prefix it is seen.
pub(crate) fn is_at(path: &str) -> bool {
    let rest = path.strip_prefix(WELL_KNOWN);
    rest.is_some_and(|rest| rest.is_empty() || (rest.starts_with('/') && rest.ends_with(ENDPOINT)))
}

/// Where the metadata of a server is that clients find at `base`.
pub(crate) fn url(base: &str) -> String {
    let start = base.find("://").map_or(0, |scheme| scheme + 3);
    let (origin, prefix) = match base[start..].find('/') {
        Some(path) => base.split_at(start + path),
        None => (base, ""),
    };
    format!("{origin}{WELL_KNOWN}{prefix}{ENDPOINT}")
}

/// Answers a request for it.
pub(crate) fn answer(method: &Method, terms: &Terms, base: &str) -> Answer {
    if method != Method::GET {
        return wrong_method("GET");
    }
    let mut metadata = json!({
        "resource": format!("{base}{ENDPOINT}"),
        "authorization_servers": terms.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if !terms.scopes.is_empty() {
        metadata["scopes_supported"] = terms.scopes.clone().into();
    }
    let mut answer = json(StatusCode::OK, metadata.to_string());
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    answer
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What tokens are asked for.
const ENDPOINT: &str = "/mcp";

#[cfg(test)]
mod tests {
    /// MCP-089: the metadata is where RFC 9728 has it.
    #[test]
    fn the_metadata_is_found_by_the_address_of_the_endpoint() {
        for (base, url) in [
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            (
                "https://a.example:1/x/y",
                "https://a.example:1/.well-known/oauth-protected-resource/x/y/mcp",
            ),
        ] {
            assert_eq!(super::url(base), url);
            assert!(super::is_at(&url[base.find("://").unwrap() + 3..].replacen(
                base[8..].split('/').next().unwrap(),
                "",
                1
            )));
        }
        assert!(super::is_at("/.well-known/oauth-protected-resource"));
        for path in ["/.well-known/oauth-protected-resourcemcp", "/.well-known/other", "/mcp"] {
            assert!(!super::is_at(path), "{path}");
        }
    }
}
