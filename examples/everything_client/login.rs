//! OAuth login without a browser: the consent page redirects at once.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::header::LOCATION;
use mcp_flow::client::HttpOptions;
use mcp_flow::http::client::Fetch;
use mcp_flow::oauth::{
    Account, AssertionGrant, IdentityProvider, LoginSettings, OAuthError, TokenSource, TokenStore,
    UserAgent,
};
use serde_json::Value;
use url::Url;

/// Creates the account that the context describes, or an anonymous one.
pub(crate) fn account(server: &str, context: &Value) -> Result<Account, OAuthError> {
    let member = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut settings = LoginSettings::default();
    settings.user_agent = Some(std::sync::Arc::new(Follower));
    settings.identity.client_id = member("client_id");
    settings.identity.client_secret = member("client_secret");
    settings.identity.client_key = member("private_key_pem");
    settings.identity.issuer = member("issuer");
    settings.identity.metadata_url = Some(DOCUMENT.to_owned());
    settings.identity.uses_client_credentials = scenario.starts_with("auth/client-credentials");
    settings.identity.assertion = assertion(&member);
    Account::new(server, TokenStore::memory(), settings)
}

/// Returns the assertion that the context describes: that of a workload, or the user's login at an
/// identity provider.
fn assertion(member: &impl Fn(&str) -> Option<String>) -> Option<AssertionGrant> {
    if let Some(token) = member("valid_jwt") {
        return Some(AssertionGrant::Workload(TokenSource::Value(token)));
    }
    let id_token = TokenSource::Value(member("idp_id_token")?);
    let mut provider = IdentityProvider::new(&member("idp_issuer")?, id_token);
    provider.token_endpoint = member("idp_token_endpoint");
    provider.client_id = member("idp_client_id");
    Some(AssertionGrant::Enterprise(Box::new(provider)))
}

/// Follows the redirects of the consent page up to the redirect URI.
#[derive(Debug)]
struct Follower;

impl UserAgent for Follower {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:3000/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let fetch = Fetch::new(&HttpOptions::new(), 64 * 1024, Duration::from_secs(10));
            let fetch = fetch.map_err(|error| error.to_string())?;
            let request = Request::get(page.as_str()).body(Bytes::new());
            let answer = fetch.send(request.map_err(|error| error.to_string())?).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let location =
                answer.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            location
                .map(str::to_owned)
                .ok_or_else(|| "the consent page does not redirect".to_owned())
        })
    }
}

/// URL at which the suite expects the client metadata document.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
