//! Accounts and user agents for the test servers.

pub(crate) mod test_server;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::header::LOCATION;
use mcp_flow_client::{Client, Error};
use mcp_flow_http_client::{Fetch, HttpOptions};
use mcp_flow_oauth::{Account, LoginSettings, TokenStore, UserAgent};
use url::Url;

/// User agent that follows the redirect of the authorization page at once.
#[derive(Debug)]
pub(crate) struct FollowingUserAgent;

impl UserAgent for FollowingUserAgent {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:1/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let options = HttpOptions::new();
            let fetch = Fetch::new(&options, 1 << 16, Duration::from_secs(10)).unwrap();
            let request = Request::get(page.as_str()).body(Bytes::new()).unwrap();
            let response = fetch.send(request).await.unwrap();
            Ok(response.headers()[LOCATION].to_str().unwrap().to_owned())
        })
    }
}

/// Returns settings with a user agent.
pub(crate) fn settings() -> LoginSettings {
    let mut settings = LoginSettings::default();
    settings.user_agent = Some(Arc::new(FollowingUserAgent));
    settings.time_limit = Duration::from_secs(10);
    settings
}

pub(crate) fn account(server: &str, tokens: &TokenStore, settings: LoginSettings) -> Arc<Account> {
    Arc::new(Account::new(server, tokens.clone(), settings).unwrap())
}

/// Connects with an account, and returns the number of tools.
pub(crate) async fn list(server: &str, account: Arc<Account>) -> Result<usize, Error> {
    let options = HttpOptions::new().authorizer(account);
    let server = mcp_flow_http_client::server(server, &options).unwrap();
    let client = Client::builder().connect(server).await?;
    let tools = client.tools().all().await?;
    client.close().await;
    Ok(tools.len())
}
