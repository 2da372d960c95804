//! Protected resource metadata (RFC 9728): names the authorization servers of a server.

use serde::Deserialize;
use url::Url;

/// Document that a protected server publishes about itself.
#[derive(Deserialize)]
pub(crate) struct ResourceMetadata {
    pub(crate) resource: Option<String>,
    /// Member of drafts of the RFC, which some servers still use.
    authorization_server: Option<String>,
    authorization_servers: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
    dpop_signing_alg_values_supported: Option<Vec<String>>,
    dpop_bound_access_tokens_required: Option<bool>,
}

impl ResourceMetadata {
    /// Returns the authorization servers, without duplicates and up to a limit.
    pub(crate) fn authorization_servers(&self) -> Vec<&str> {
        let mut servers = Vec::new();
        let named = self.authorization_servers.iter().flatten();
        for server in self.authorization_server.iter().chain(named) {
            let server = server.trim();
            if !server.is_empty() && !servers.contains(&server) && servers.len() < MAX_SERVERS {
                servers.push(server);
            }
        }
        servers
    }

    /// Returns the supported scopes.
    pub(crate) fn scopes(&self) -> &[String] {
        self.scopes_supported.as_deref().unwrap_or_default()
    }

    /// Returns whether the server accepts tokens bound to a key for ES256.
    pub(crate) fn accepts_bound_tokens(&self) -> bool {
        let algorithms = self.dpop_signing_alg_values_supported.iter().flatten();
        self.requires_bound_tokens() || algorithms.into_iter().any(|one| one == "ES256")
    }

    /// Returns whether the server accepts no other tokens.
    pub(crate) fn requires_bound_tokens(&self) -> bool {
        self.dpop_bound_access_tokens_required == Some(true)
    }

    /// Checks that the document is about this server: otherwise the server could obtain a token for
    /// another one. Returns the problem.
    pub(crate) fn check(&self, server: &Url) -> Result<(), String> {
        let resource = self.resource.as_deref().ok_or("it has no resource")?;
        let url = Url::parse(resource).map_err(|_| "its resource is not a URL")?;
        if url.fragment().is_some() {
            return Err("its resource has a fragment, which RFC 8707 forbids".to_owned());
        }
        match covers(&url, server) {
            true => Ok(()),
            false => Err(format!("resource mismatch: it is about {resource}, not {server}")),
        }
    }
}

/// Returns whether a resource is the server, or a parent path of it in the same origin.
fn covers(resource: &Url, server: &Url) -> bool {
    // The query is ignored: it may be a transport hint.
    let rest = server.path().strip_prefix(resource.path());
    let is_within =
        |rest: &str| rest.is_empty() || rest.starts_with('/') || resource.path().ends_with('/');
    resource.origin() == server.origin() && rest.is_some_and(is_within)
}

/// Lists the well-known URLs of the document, the most likely first.
pub(crate) fn well_known_urls(server: &Url) -> Vec<Url> {
    let paths = match server.path().trim_matches('/') {
        "" => vec![WELL_KNOWN.to_owned()],
        path => vec![
            format!("{WELL_KNOWN}/{path}"),
            format!("/{path}{WELL_KNOWN}"),
            WELL_KNOWN.to_owned(),
        ],
    };
    paths.iter().map(|path| at_path(server, path)).collect()
}

/// Returns a URL of the same origin with this path.
pub(crate) fn at_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(path);
    url
}

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Limit on authorization servers that are tried: each costs up to four requests.
const MAX_SERVERS: usize = 4;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use url::Url;

    use super::{ResourceMetadata, well_known_urls};

    /// MCP-089: the document is looked for below the path, beside it, and at the root.
    #[test]
    fn well_known_urls_follow_the_path() {
        for (server, expected) in [
            ("https://a", &["/.well-known/oauth-protected-resource"][..]),
            ("https://a/?x=y", &["/.well-known/oauth-protected-resource"]),
            (
                "https://a/b/mcp/?x=y#z",
                &[
                    "/.well-known/oauth-protected-resource/b/mcp",
                    "/b/mcp/.well-known/oauth-protected-resource",
                    "/.well-known/oauth-protected-resource",
                ],
            ),
        ] {
            let urls = well_known_urls(&Url::parse(server).unwrap());
            let urls: Vec<_> = urls.iter().map(Url::as_str).collect();
            let expected: Vec<_> = expected.iter().map(|path| format!("https://a{path}")).collect();
            assert_eq!(urls, expected, "{server}");
        }
    }

    fn read(document: Value) -> ResourceMetadata {
        serde_json::from_value(document).unwrap()
    }

    /// MCP-090: a document is accepted only for its own resource.
    #[test]
    fn documents_of_other_resources_are_rejected() {
        let server = Url::parse("https://mcp.example/a/mcp?hint=1").unwrap();
        for good in [
            "https://mcp.example/a/mcp",
            "https://mcp.example:443/a/mcp?hint=2",
            "https://mcp.example/a",
            "https://mcp.example/a/",
            "https://mcp.example",
        ] {
            assert_eq!(read(json!({"resource": good})).check(&server), Ok(()), "{good}");
        }
        for bad in [
            "https://mcp.example/a/mc",
            "https://mcp.example/a/mcp/more",
            "https://mcp.example/b",
            "https://other.example/a/mcp",
            "https://mcp.example:444/a/mcp",
            "http://mcp.example/a/mcp",
            "https://mcp.example/a/mcp#part",
            "urn:mcp.example",
            "mcp",
        ] {
            assert!(read(json!({"resource": bad})).check(&server).is_err(), "{bad}");
        }
        assert!(read(json!({"authorization_servers": ["https://as"]})).check(&server).is_err());
    }

    /// MCP-090: the number of authorization servers that are tried is limited.
    #[test]
    fn authorization_servers_are_limited() {
        let named = json!({"authorization_server": " a", "authorization_servers": ["b", "", "a"]});
        assert_eq!(read(named).authorization_servers(), ["a", "b"]);
        let many: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        let many = read(json!({"authorization_servers": many}));
        assert_eq!(many.authorization_servers(), ["0", "1", "2", "3"]);
        assert!(read(json!({})).authorization_servers().is_empty());
    }
}
