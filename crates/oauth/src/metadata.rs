//! Authorization server metadata (RFC 8414, OpenID Connect Discovery).

use serde::Deserialize;
use url::Url;

use crate::address_policy;
use crate::error::{OAuthError, redact};
use crate::resource::at_path;

/// Document that an authorization server publishes about itself.
#[derive(Default, Deserialize)]
pub(crate) struct ServerMetadata {
    pub(crate) issuer: Option<String>,
    /// Empty if no grant of the server needs one.
    #[serde(default)]
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
    response_types_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) client_id_metadata_document_supported: Option<bool>,
    pub(crate) authorization_response_iss_parameter_supported: Option<bool>,
    pub(crate) dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl ServerMetadata {
    /// Assumes the default endpoints of MCP 2025-03-26, for a server without metadata.
    pub(crate) fn assumed(server: &Url) -> Self {
        let endpoint = |path: &str| at_path(server, path).to_string();
        Self {
            authorization_endpoint: endpoint("/authorize"),
            token_endpoint: endpoint("/token"),
            registration_endpoint: Some(endpoint("/register")),
            ..Self::default()
        }
    }

    /// Describes an authorization server by its token endpoint alone.
    pub(crate) fn of_token_endpoint(issuer: &str, endpoint: &str) -> Self {
        Self {
            issuer: Some(issuer.to_owned()),
            token_endpoint: endpoint.to_owned(),
            ..Self::default()
        }
    }

    /// Checks that the issuer is the one the document was fetched for (RFC 8414, 3.3).
    pub(crate) fn check_issuer(&self, expected: &Url) -> Result<(), OAuthError> {
        let received = self.issuer.as_deref();
        // Only the trailing slash of an origin is normalized; all else is compared verbatim.
        let is_root = |received: &str| {
            expected.path() == "/" && expected.as_str().strip_suffix('/') == Some(received)
        };
        match received {
            Some(received) if received == expected.as_str() || is_root(received) => Ok(()),
            received => Err(OAuthError::Untrusted(redact(
                &format!(
                    "authorization server issuer mismatch: expected {expected}, received {}",
                    received.unwrap_or("none")
                ),
                &[],
            ))),
        }
    }

    /// Checks that all endpoints use https.
    pub(crate) fn check_endpoints(&self) -> Result<(), OAuthError> {
        if !self.authorization_endpoint.is_empty() {
            address_policy::check_url("the authorization endpoint", &self.authorization_endpoint)?;
        }
        address_policy::check_url("the token endpoint", &self.token_endpoint)?;
        if let Some(address) = &self.registration_endpoint {
            address_policy::check_url("the registration endpoint", address)?;
        }
        Ok(())
    }

    /// Checks that the authorization code grant with PKCE is supported or not mentioned.
    pub(crate) fn check_code_grant(&self) -> Result<(), OAuthError> {
        let lacks = |supported: &Option<Vec<String>>, wanted: &str| {
            supported.as_ref().is_some_and(|all| !all.iter().any(|one| one == wanted))
        };
        let has_no_page = self.authorization_endpoint.is_empty();
        if has_no_page || lacks(&self.response_types_supported, "code") {
            let what = "it does not support authorization codes; use client credentials";
            return Err(OAuthError::Refused(what.to_owned()));
        }
        if lacks(&self.code_challenge_methods_supported, "S256") {
            let what = "the authorization server does not support PKCE with S256, which \
                        protects authorization codes";
            return Err(OAuthError::Untrusted(what.to_owned()));
        }
        // Most servers that omit it support PKCE, and the others ignore the challenge.
        if self.code_challenge_methods_supported.is_none() {
            tracing::warn!("the authorization server does not announce PKCE support");
        }
        Ok(())
    }
}

/// Lists the well-known URLs of an issuer, in the order of MCP 2025-11-25, then the root as in MCP
/// 2025-03-26.
pub(crate) fn well_known_urls(issuer: &Url) -> Vec<Url> {
    // Some servers name the document instead of the issuer.
    if is_document(issuer) {
        return vec![issuer.clone()];
    }
    let paths = match issuer.path().trim_matches('/') {
        "" => vec![OAUTH.to_owned(), OPENID.to_owned()],
        path => vec![
            format!("{OAUTH}/{path}"),
            format!("{OPENID}/{path}"),
            format!("/{path}{OPENID}"),
            OAUTH.to_owned(),
        ],
    };
    paths.iter().map(|path| at_path(issuer, path)).collect()
}

/// Derives the issuer from the URL of its metadata.
pub(crate) fn issuer_of(document: &Url) -> Option<Url> {
    let path = document.path();
    let issuer = [OAUTH, OPENID]
        .iter()
        .find_map(|known| path.strip_prefix(known).or_else(|| path.strip_suffix(known)))?;
    Some(at_path(document, issuer))
}

/// Returns whether a URL is that of a metadata document.
pub(crate) fn is_document(url: &Url) -> bool {
    url.path().contains("/.well-known/")
}

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

#[cfg(test)]
mod tests {
    use serde_json::json;
    use url::Url;

    use super::{ServerMetadata, issuer_of, well_known_urls};

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    /// MCP-089: every well-known URL is tried, and each belongs to one issuer.
    #[test]
    fn well_known_urls_follow_the_path() {
        let (oauth, openid) =
            ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration");
        for (issuer, expected) in [
            ("https://as.example", vec![(oauth.to_owned(), ""), (openid.to_owned(), "")]),
            ("https://as.example/?a=b", vec![(oauth.to_owned(), ""), (openid.to_owned(), "")]),
            (
                "https://as.example/a/b/",
                vec![
                    (format!("{oauth}/a/b"), "a/b"),
                    (format!("{openid}/a/b"), "a/b"),
                    (format!("/a/b{openid}"), "a/b"),
                    (oauth.to_owned(), ""),
                ],
            ),
            (
                "https://as.example/x/.well-known/openid-configuration",
                vec![(format!("/x{openid}"), "x")],
            ),
        ] {
            let found: Vec<_> = well_known_urls(&url(issuer))
                .into_iter()
                .map(|document| (document.to_string(), issuer_of(&document).map(String::from)))
                .collect();
            let at = |path: &str| format!("https://as.example{path}");
            let expected: Vec<_> = expected
                .iter()
                .map(|(path, issuer)| (at(path), Some(at(&format!("/{issuer}")))))
                .collect();
            assert_eq!(found, expected, "{issuer}");
        }
        assert_eq!(issuer_of(&url("https://as.example/.well-known/else")), None);
    }

    /// MCP-090: issuers are compared verbatim.
    #[test]
    fn issuers_are_compared_verbatim() {
        for (expected, received, is_same) in [
            ("https://as.example", Some("https://as.example"), true),
            ("https://as.example", Some("https://as.example/"), true),
            ("https://as.example/a", Some("https://as.example/a"), true),
            ("https://as.example/a/", Some("https://as.example/a/"), true),
            ("https://as.example/a", Some("https://as.example/a/"), false),
            ("https://as.example/a/", Some("https://as.example/a"), false),
            ("https://as.example", Some("https://as.example//"), false),
            ("https://as.example", Some("https://AS.example"), false),
            ("https://as.example", Some("http://as.example"), false),
            ("https://as.example", Some(""), false),
            ("https://as.example", None, false),
        ] {
            let metadata =
                ServerMetadata { issuer: received.map(str::to_owned), ..Default::default() };
            let checked = metadata.check_issuer(&url(expected));
            assert_eq!(checked.is_ok(), is_same, "{expected} {received:?}");
        }
    }

    /// MCP-090: a server without PKCE is rejected, one that does not mention it is accepted.
    #[test]
    fn servers_without_pkce_are_rejected() {
        for (member, value, is_good) in [
            ("issuer", json!("https://as.example"), true),
            ("code_challenge_methods_supported", json!(["plain", "S256"]), true),
            ("code_challenge_methods_supported", json!(["plain"]), false),
            ("code_challenge_methods_supported", json!([]), false),
            ("response_types_supported", json!(["code", "token"]), true),
            ("response_types_supported", json!(["token"]), false),
        ] {
            let mut document = json!({"authorization_endpoint": "/", "token_endpoint": ""});
            document[member] = value;
            let shown = document.to_string();
            let metadata: ServerMetadata = serde_json::from_value(document).unwrap();
            assert_eq!(metadata.check_code_grant().is_ok(), is_good, "{shown}");
        }
    }
}
