//! Sessions of a running server, asked over the network.

use std::borrow::Cow;

use mcp_flow::client::{Client, Host};
use serde_json::Value;

use crate::fault::explain;
use crate::logins::Logins;
use crate::reach::{self, How, Trusted};

pub(crate) struct Remote {
    pub(super) client: Client,
}

impl Remote {
    pub(super) async fn open(
        url: &str,
        token: Option<&str>,
        logins: &Logins,
        trusted: &Trusted,
        how: How,
        host: impl Host,
    ) -> anyhow::Result<Self> {
        let headers = std::iter::empty();
        let connector = reach::network(&endpoint(url), headers, token, logins, trusted)?;
        Ok(Self { client: reach::open(connector, how, host).await? })
    }

    pub(super) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        self.client.entries("interaction.list", "sessions").all().await.map_err(explain)
    }

    pub(super) async fn call(&self, method: &'static str, params: Value) -> anyhow::Result<Value> {
        self.client.request(method, params).await.map_err(explain)
    }
}

/// Where a server of ours is asked, if only the server as a whole is named.
fn endpoint(url: &str) -> Cow<'_, str> {
    let server = url.strip_suffix('/').unwrap_or(url);
    match server.split_once("://") {
        Some((_, host)) if !host.contains('/') => format!("{server}/mcp").into(),
        _ => url.into(),
    }
}
