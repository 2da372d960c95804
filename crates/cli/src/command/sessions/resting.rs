//! Sessions in a store that no server uses: one is put together in this process and asked.

use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::session::store::{Filter, Page};
use mcp_flow::session::{Session, SessionId, Store};
use mcp_flow::workflow::Library;
use mcp_flow::workflow::runs::Runs;
use mcp_flow::{ConnectionInfo, Interaction, Principal, Server};
use serde_json::{Value, json};

use super::{meta, result_of};
use crate::store::{Kept, StoreUrl, open};

pub(super) struct Resting {
    store: Arc<dyn Store>,
    server: Server,
}

impl Resting {
    pub(super) fn open(url: &StoreUrl) -> anyhow::Result<Self> {
        if let StoreUrl::Redb(path) = url
            && !path.exists()
        {
            anyhow::bail!("there is no store at {}", path.display());
        }
        let Kept { store, keys, .. } = open(Some(url))?;
        let store = store.context("what is kept in memory is gone; name a store on disk")?;
        let flows = mcp_flow_examples::flows();
        // What a run goes through is in its journal; where else workflows are is nothing to it.
        let run = Runs::new(Library::bundled(), keys).flow();
        let interaction = Interaction::builder().flows(flows).store(store.clone());
        let interaction = interaction.engine(move |engine| engine.flow(run)).build();
        let server = interaction.add_to(Server::builder("mcp-flow", env!("CARGO_PKG_VERSION")));
        Ok(Self { store, server: server.build()? })
    }

    /// All there are, whoever they belong to: who has the file has them all.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = Page { after, most: PAGE };
            let listed = self.store.list(Filter::default(), page).await?;
            let Some(last) = listed.last() else { return Ok(all) };
            after = Some(last.id);
            all.extend(listed.iter().map(mcp_flow::describe_session));
        }
    }

    /// Asks as the one the session belongs to.
    pub(super) async fn call(
        &self,
        id: &str,
        method: &str,
        mut params: Value,
    ) -> anyhow::Result<Value> {
        let mut info = ConnectionInfo::new("store");
        if let Ok(id) = id.parse::<SessionId>()
            && let Ok(Some(session)) = Session::replay(&self.store.read(id).await?)
        {
            info.principal = Principal::named(session.started.owner.name());
        }
        let connection = self.server.connect(info)?;
        params["_meta"] = meta();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        connection.receive(request.to_string().as_bytes());
        let reply = connection.output().await.context("the session cannot be asked")?;
        result_of(&serde_json::from_slice(reply.lines())?)
    }
}

const PAGE: usize = 256;
