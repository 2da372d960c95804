//! Sessions of a running server.

use std::borrow::Cow;

use mcp_flow::client::{Client, Host};
use serde_json::{Map, Value};

use crate::client::connect::{self, ConnectionSettings, TlsOptions};
use crate::client::error::explain;
use crate::client::logins::LoginOptions;

pub(crate) struct RemoteSessions {
    pub(super) client: Client,
}

impl RemoteSessions {
    pub(super) async fn open(
        url: &str,
        token: Option<&str>,
        logins: &LoginOptions,
        tls: &TlsOptions,
        settings: ConnectionSettings,
        host: impl Host,
    ) -> anyhow::Result<Self> {
        let headers = std::iter::empty();
        let connector = connect::network(&endpoint(url), headers, token, logins, None, tls)?;
        Ok(Self { client: connect::connect(connector, settings, host).await? })
    }

    pub(super) async fn list(
        &self,
        search: Map<String, Value>,
        needs_admin: bool,
    ) -> anyhow::Result<Vec<Value>> {
        let method = if needs_admin { "admin/sessions" } else { "interaction.list" };
        let (mut all, mut params) = (Vec::new(), search);
        loop {
            let mut page = self.call(method, Value::Object(params.clone())).await?;
            if let Value::Array(sessions) = page["sessions"].take() {
                all.extend(sessions);
            }
            let next = page["nextCursor"].take();
            // A page may be empty, but a cursor never comes twice.
            if !next.is_string() || params.get("cursor") == Some(&next) {
                return Ok(all);
            }
            params.insert("cursor".to_owned(), next);
        }
    }

    pub(super) async fn call(&self, method: &'static str, params: Value) -> anyhow::Result<Value> {
        self.client.request(method, params).await.map_err(explain)
    }
}

/// Completes an address without a path with the one of our servers, `/mcp`.
fn endpoint(url: &str) -> Cow<'_, str> {
    let server = url.strip_suffix('/').unwrap_or(url);
    match server.split_once("://") {
        Some((_, host)) if !host.contains('/') => format!("{server}/mcp").into(),
        _ => url.into(),
    }
}
