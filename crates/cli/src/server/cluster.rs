//! The other nodes that share the session store, for the HTTP transports and the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use mcp_flow::engine::ClusterMember;
use mcp_flow::http::client::{Fetch, HttpOptions};
use mcp_flow::http::{ClusterFuture, ClusterNodes, NodeRequest, NodeUrl, NotSent, RelayedResponse};
use mcp_flow::seal::KeyRing;
use mcp_flow::session::Epoch;
use mcp_flow::session::store::{Record, RecordChange, StoreError};
use mcp_flow::{Server, SharedNotice};
use url::Url;

/// The nodes of the store.
#[derive(Debug)]
pub(crate) struct StoreNodes {
    member: ClusterMember,
    keys: KeyRing,
    client: Fetch,
}

impl StoreNodes {
    pub(crate) fn new(member: ClusterMember, keys: KeyRing) -> anyhow::Result<Self> {
        // Other nodes stop waiting when this one is gone, so the time is a last resort.
        let client = Fetch::new(&HttpOptions::default(), MAX_BODY, TIMEOUT)?;
        Ok(Self { member, keys, client })
    }

    /// Tells clients of this node what other nodes announce, and the other way round. The share of
    /// this node in limits is adjusted to the number of nodes.
    pub(crate) fn connect(self: &Arc<Self>, server: &Server) {
        let announcing = self.member.clone();
        server.share_notices(move |notice: &SharedNotice| {
            if let Ok(content) = serde_json::to_vec(notice) {
                announcing.announce(NOTICES, content);
            }
        });
        let receiving = server.clone();
        self.member.on_announcement(NOTICES, move |content| {
            match serde_json::from_slice::<SharedNotice>(content) {
                Ok(notice) => receiving.receive_notice(&notice),
                Err(error) => tracing::debug!(%error, "another node announces something unknown"),
            }
        });
        let (member, server) = (self.member.clone(), server.clone());
        self.member.on_heartbeat(move || server.set_nodes(member.known_nodes().len()));
    }
}

/// Decides at which URL the other nodes reach this one: the one of the options, or the address it
/// listens on, unless that is no address of a particular machine.
pub(crate) fn node_url(
    chosen: Option<&str>,
    address: SocketAddr,
    is_encrypted: bool,
) -> Option<String> {
    if let Some(url) = chosen {
        return Some(url.trim_end_matches('/').to_owned());
    }
    let scheme = if is_encrypted { "https" } else { "http" };
    (!address.ip().is_unspecified()).then(|| format!("{scheme}://{address}"))
}

/// Parses the URL of a node.
pub(crate) fn parse_node_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; use http://HOST:PORT"))?;
    let is_plain = url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.path() == "/";
    match url.scheme() {
        "http" | "https" if url.has_host() && is_plain => Ok(text.to_owned()),
        _ => Err("use http://HOST:PORT or https://HOST:PORT".to_owned()),
    }
}

impl ClusterNodes for StoreNodes {
    fn epoch(&self) -> Option<u64> {
        self.member.epoch().map(Epoch::number)
    }

    fn find(&self, epoch: u64) -> Option<NodeUrl> {
        let mut nodes = self.member.known_nodes().into_iter();
        nodes.find(|node| node.epoch.number() == epoch).map(|node| node.info.url)
    }

    fn is_alive(&self, epoch: u64) -> ClusterFuture<'_, io::Result<bool>> {
        Box::pin(async move {
            let nodes = self.member.nodes().await.map_err(unavailable)?;
            Ok(nodes.iter().any(|node| node.epoch.number() == epoch))
        })
    }

    fn send(&self, request: NodeRequest) -> ClusterFuture<'_, Result<RelayedResponse, NotSent>> {
        Box::pin(async move {
            match self.client.open(request).await {
                Ok(response) => Ok(response.map(|body| {
                    let body = body.map_err(io::Error::other);
                    Box::pin(body) as _
                })),
                Err(error) => {
                    Err(NotSent { is_unsent: error.is_unsent(), reason: error.to_string() })
                }
            }
        })
    }

    fn keys(&self) -> &KeyRing {
        &self.keys
    }

    fn record(&self, key: &str) -> ClusterFuture<'_, io::Result<Option<NodeRecord>>> {
        let key = key_of(key);
        Box::pin(async move {
            let record = self.member.record(&key).await.map_err(unavailable)?;
            Ok(record.map(|record| (record.holder.number(), record.value)))
        })
    }

    fn change_record(
        &self,
        key: &str,
        from: Option<u64>,
        record: Option<NodeRecord>,
        lifetime: Duration,
    ) -> ClusterFuture<'_, io::Result<bool>> {
        let change = RecordChange {
            key: key_of(key),
            from: from.map(Epoch::new),
            record: record.map(|(holder, value)| Record { holder: Epoch::new(holder), value }),
            lifetime,
        };
        Box::pin(async move { self.member.change_record(change).await.map_err(unavailable) })
    }
}

/// Key of the record of an MCP session.
fn key_of(session: &str) -> String {
    format!("mcp-session/{session}")
}

fn unavailable(error: StoreError) -> io::Error {
    io::Error::other(error)
}

/// Holder and value of a record.
type NodeRecord = (u64, Vec<u8>);

/// Topic of notices for the clients of all nodes.
const NOTICES: &str = "notices";

/// Limit that does not apply: bodies are relayed in pieces.
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Longest time until the head of a response: calls that take longer are answered by a stream.
const TIMEOUT: Duration = Duration::from_secs(120);
