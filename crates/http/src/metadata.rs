//! How clients find out who gives out tokens for this server: protected-resource metadata
//! (RFC 9728), as the authorization pages of the protocol ask for.

use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, StatusCode};
use mcp_flow_server::identity::TokenRequirements;
use serde_json::json;

use crate::answer::{Answer, json, wrong_method};

/// Whether there is anything to find out: tokens that were handed over by hand have no issuer.
pub(crate) fn is_offered(terms: &TokenRequirements) -> bool {
    !terms.authorization_servers.is_empty()
}

/// Whose metadata is at a path: that of one endpoint, under whatever prefix it is seen, or that of
/// the server as a whole, which is that of the endpoint most clients use.
pub(crate) fn at(path: &str) -> Option<&'static str> {
    match path.strip_prefix(WELL_KNOWN)? {
        "" => Some(ENDPOINTS[0]),
        rest => ENDPOINTS.into_iter().find(|endpoint| rest.ends_with(endpoint)),
    }
}

/// Where the metadata is for a request to `path` of a server that clients find at `base`. Each
/// endpoint is a resource of its own: clients hold what is said of it against the address they use.
pub(crate) fn url(base: &str, path: &str) -> String {
    let start = base.find("://").map_or(0, |scheme| scheme + 3);
    let (origin, prefix) = match base[start..].find('/') {
        Some(path) => base.split_at(start + path),
        None => (base, ""),
    };
    let endpoint = ENDPOINTS.into_iter().find(|endpoint| path == *endpoint);
    format!("{origin}{WELL_KNOWN}{prefix}{}", endpoint.unwrap_or(ENDPOINTS[0]))
}

/// Answers a request for it.
pub(crate) fn answer(
    method: &Method,
    terms: &TokenRequirements,
    base: &str,
    endpoint: &str,
) -> Answer {
    if method != Method::GET {
        return wrong_method("GET");
    }
    let mut metadata = json!({
        "resource": format!("{base}{endpoint}"),
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

/// What tokens are asked for. `/mcp-flow` is spoken to by QUIC, but asked about here.
const ENDPOINTS: [&str; 4] = ["/mcp", "/sse", "/ws", "/mcp-flow"];

#[cfg(test)]
mod tests {
    /// MCP-089: the metadata is where RFC 9728 has it, for each endpoint its own.
    #[test]
    fn the_metadata_is_found_by_the_address_of_the_endpoint() {
        let well_known = "/.well-known/oauth-protected-resource";
        for (base, origin, prefix) in [
            ("https://a.example", "https://a.example", ""),
            ("https://a.example:1/x/y", "https://a.example:1", "/x/y"),
        ] {
            for (path, endpoint) in [
                ("/mcp", "/mcp"),
                ("/sse", "/sse"),
                ("/ws", "/ws"),
                ("/mcp-flow", "/mcp-flow"),
                ("/metrics", "/mcp"),
            ] {
                let place = format!("{well_known}{prefix}{endpoint}");
                assert_eq!(super::url(base, path), format!("{origin}{place}"));
                assert_eq!(super::at(&place), Some(endpoint));
            }
        }
        assert_eq!(super::at(well_known), Some("/mcp"));
        for path in ["/.well-known/oauth-protected-resourcemcp", "/.well-known/other", "/mcp"] {
            assert_eq!(super::at(path), None, "{path}");
        }
    }
}
