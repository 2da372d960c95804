//! Sessions of a running server, asked over Streamable HTTP by requests that stand alone.

use anyhow::Context as _;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{meta, result_of};

pub(super) struct Remote {
    uri: Uri,
    token: Option<String>,
}

impl Remote {
    pub(super) fn new(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let uri: Uri = url.parse().with_context(|| format!("{url} is no URL"))?;
        match uri.scheme_str() {
            Some("http") if uri.host().is_some() => {}
            Some("https") => anyhow::bail!(
                "{url} is encrypted, which this command cannot do yet; run it beside the server, \
                 with its http:// address or with --store"
            ),
            _ => anyhow::bail!("{url} is no address of a server, such as {}", super::DEFAULT_URL),
        }
        Ok(Self { uri, token: token.map(str::to_owned) })
    }

    pub(super) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.call("interaction.list", params).await?;
            all.extend(page["sessions"].as_array().into_iter().flatten().cloned());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(all),
            }
        }
    }

    pub(super) async fn call(&self, method: &str, mut params: Value) -> anyhow::Result<Value> {
        params["_meta"] = meta();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, kind, text) = self.post(method, body.to_string()).await?;
        if status == StatusCode::UNAUTHORIZED {
            anyhow::bail!("the server wants a token; give one with --token");
        }
        let text = match kind.as_str() {
            "text/event-stream" => last_event(&text),
            _ => text.as_str(),
        };
        let reply = serde_json::from_str(text)
            .with_context(|| format!("{} answered with {status} and no message", self.uri))?;
        result_of(&reply)
    }

    async fn post(
        &self,
        method: &str,
        body: String,
    ) -> anyhow::Result<(StatusCode, String, String)> {
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = self.uri.port_u16().unwrap_or(80);
        let unreachable = || format!("no server answers at {}", self.uri);
        let stream = TcpStream::connect((host, port)).await.with_context(unreachable)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let path = match self.uri.path_and_query() {
            Some(path) if path.as_str() != "/" => path.as_str(),
            _ => "/mcp",
        };
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::post(path)
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let kind = response.headers().get(CONTENT_TYPE);
            let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
            let body = Limited::new(response.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!("the answer broke off: {error}"))?;
            let text = String::from_utf8(body.to_bytes().into())?;
            anyhow::Ok((status, kind, text))
        };
        // The connection has to be driven for anything to happen on it.
        tokio::select! {
            answered = exchange => answered,
            ended = connection => {
                ended.with_context(unreachable)?;
                anyhow::bail!("the server hung up")
            }
        }
    }
}

/// The data of the last event, which is the reply.
fn last_event(text: &str) -> &str {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.map(str::trim).rfind(|data| !data.is_empty()).unwrap_or_default()
}

const LONGEST: usize = 64 * 1024 * 1024;
