//! Protected resource metadata (RFC 9728): names the authorization servers of each endpoint.

use hyper::header::{CACHE_CONTROL, HeaderValue};
use hyper::{Method, StatusCode};
use mcp_flow_server::identity::TokenRequirements;
use serde_json::json;

use crate::response::{HttpResponse, json, method_not_allowed};

/// Returns whether metadata is published: static tokens have no authorization server to name.
pub(crate) fn is_published(terms: &TokenRequirements) -> bool {
    !terms.authorization_servers.is_empty()
}

/// Returns the endpoint whose metadata is at a path, under any prefix. The bare well-known path is
/// that of `/mcp`.
pub(crate) fn endpoint_of(path: &str) -> Option<&'static str> {
    match path.strip_prefix(WELL_KNOWN)? {
        "" => Some(ENDPOINTS[0]),
        rest => ENDPOINTS.into_iter().find(|endpoint| rest.ends_with(endpoint)),
    }
}

/// Returns the metadata URL for a request to `path` of a server at `base`. Each endpoint is a
/// resource of its own: clients compare its identifier with the URL they use.
pub(crate) fn url(base: &str, path: &str) -> String {
    let start = base.find("://").map_or(0, |scheme| scheme + 3);
    let (origin, prefix) = match base[start..].find('/') {
        Some(path) => base.split_at(start + path),
        None => (base, ""),
    };
    let endpoint = ENDPOINTS.into_iter().find(|endpoint| path == *endpoint);
    format!("{origin}{WELL_KNOWN}{prefix}{}", endpoint.unwrap_or(ENDPOINTS[0]))
}

/// Serves the metadata of an endpoint.
pub(crate) fn serve(
    method: &Method,
    terms: &TokenRequirements,
    base: &str,
    endpoint: &str,
) -> HttpResponse {
    if method != Method::GET {
        return method_not_allowed("GET");
    }
    let mut metadata = json!({
        "resource": format!("{base}{endpoint}"),
        "authorization_servers": terms.authorization_servers,
        "bearer_methods_supported": ["header"],
    });
    if !terms.scopes.is_empty() {
        metadata["scopes_supported"] = terms.scopes.clone().into();
    }
    if let Some(proofs) = &terms.proofs {
        metadata["dpop_signing_alg_values_supported"] = proofs.algorithms.clone().into();
        metadata["dpop_bound_access_tokens_required"] = proofs.is_required.into();
    }
    let mut response = json(StatusCode::OK, metadata.to_string());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Endpoints that require tokens. `/mcp-flow` is served over WebTransport, its metadata here.
const ENDPOINTS: [&str; 4] = ["/mcp", "/sse", "/ws", "/mcp-flow"];

#[cfg(test)]
mod tests {
    /// MCP-089: each endpoint has metadata of its own, at the URL that RFC 9728 defines.
    #[test]
    fn metadata_urls_are_derived_from_the_endpoint() {
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
                let path_of_metadata = format!("{well_known}{prefix}{endpoint}");
                assert_eq!(super::url(base, path), format!("{origin}{path_of_metadata}"));
                assert_eq!(super::endpoint_of(&path_of_metadata), Some(endpoint));
            }
        }
        assert_eq!(super::endpoint_of(well_known), Some("/mcp"));
        for path in ["/.well-known/oauth-protected-resourcemcp", "/.well-known/other", "/mcp"] {
            assert_eq!(super::endpoint_of(path), None, "{path}");
        }
    }
}
