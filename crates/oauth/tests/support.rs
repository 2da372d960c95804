//! Who logs in to a town.

pub(crate) mod town;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::header::LOCATION;
use mcp_flow_client::{Client, Error};
use mcp_flow_http::client::{Fetch, HttpOptions};
use mcp_flow_oauth::{Account, Settings, Tokens, Visitor};
use url::Url;

/// Goes to the page and comes back at once.
#[derive(Debug)]
pub(crate) struct Prompt;

impl Visitor for Prompt {
    fn redirect_uri(&self) -> String {
        "http://127.0.0.1:1/callback".to_owned()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let options = HttpOptions::new();
            let fetch = Fetch::new(&options, 1 << 16, Duration::from_secs(10)).unwrap();
            let request = Request::get(page.as_str()).body(Bytes::new()).unwrap();
            let answer = fetch.send(request).await.unwrap();
            Ok(answer.headers()[LOCATION].to_str().unwrap().to_owned())
        })
    }
}

/// Somebody who can be asked.
pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.visitor = Some(Arc::new(Prompt));
    settings.time_limit = Duration::from_secs(10);
    settings
}

pub(crate) fn account(server: &str, tokens: &Tokens, settings: Settings) -> Arc<Account> {
    Arc::new(Account::new(server, tokens.clone(), settings).unwrap())
}

/// Connects with an account, and hears what there is.
pub(crate) async fn list(server: &str, account: Arc<Account>) -> Result<usize, Error> {
    let options = HttpOptions::new().authorizer(account);
    let server = mcp_flow_http::client::server(server, &options).unwrap();
    let client = Client::builder().connect(server).await?;
    let tools = client.tools().all().await?;
    client.close().await;
    Ok(tools.len())
}
