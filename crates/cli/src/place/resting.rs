//! Sessions in a store that no server uses: one is put together in this process and asked.

use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::session::prompt::Prompt;
use mcp_flow::session::store::{Filter, PageRequest};
use mcp_flow::session::{Session, SessionId, Store};
use mcp_flow::workflow::Library;
use mcp_flow::workflow::runs::Runs;
use mcp_flow::{ConnectionInfo, Interaction, Principal, Server};
use serde_json::{Value, json};

use crate::ask::question::Question;
use crate::conversation::Talk;
use crate::store::{self, Kept, StoreUrl};

pub(crate) struct Resting {
    store: Arc<dyn Store>,
    server: Server,
}

impl Resting {
    /// Opens a store that is there.
    pub(super) fn open(url: &StoreUrl, library: &Library) -> anyhow::Result<Self> {
        match url {
            StoreUrl::Redb(path) if !path.exists() => {
                anyhow::bail!("there is no store at {}", path.display())
            }
            url => Self::make(url, library),
        }
    }

    /// Opens a store, which may be new.
    pub(super) fn make(url: &StoreUrl, library: &Library) -> anyhow::Result<Self> {
        let gone = "what is kept in memory is gone; name a store on disk";
        let StoreUrl::Redb(path) = url else { anyhow::bail!(gone) };
        let Kept { store, keys, .. } = store::redb(path).map_err(|problem| {
            anyhow::anyhow!(
                "the store {} cannot be used: {:#}. If a server uses it, name that server with --url",
                path.display(),
                anyhow::Error::new(problem)
            )
        })?;
        let store = store.context(gone)?;
        let runs = Runs::new(library.clone(), keys);
        let run = runs.flow();
        let flows = Interaction::builder().flows(mcp_flow_examples::flows()).store(store.clone());
        let flows = flows.engine(move |engine| engine.flow(run));
        // Whoever looks must not set steps going that end in the middle, with this process.
        let interaction = flows.offline().build();
        let server = interaction.add_to(Server::builder("mcp-flow", env!("CARGO_PKG_VERSION")));
        let server = runs.add_to(interaction.engine(), server);
        Ok(Self { store, server: server.build()? })
    }

    /// All there are, whoever they belong to: who has the file has them all.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = PageRequest { after, most: PAGE };
            let listed = self.store.list(Filter::default(), page).await?;
            let Some(last) = listed.last() else { return Ok(all) };
            after = Some(last.id);
            all.extend(listed.iter().map(mcp_flow::describe_session));
        }
    }

    /// Answers the questions of a session until it ends.
    pub(super) async fn take_up(&self, talk: &Talk, id: &str) -> anyhow::Result<Value> {
        let about = || json!({"sessionId": id});
        let mut result = self.call(Some(id), "interaction.continue", about()).await?;
        loop {
            let next = result["next"].take();
            if let Some(complete) = next.get("complete") {
                let mut end = complete.clone();
                end["sessionId"] = id.into();
                return Ok(end);
            }
            let Some(prompt) = next.get("prompt") else {
                result = self.call(Some(id), "interaction.continue", about()).await?;
                continue;
            };
            let key = prompt["metadata"]["key"].as_str().unwrap_or("answer");
            let asked: Prompt = serde_json::from_value(prompt.clone())?;
            let value = talk.answer(id, Question::of_prompt(key, asked)).await?;
            let mut params = about();
            params["response"] = json!({"value": value});
            result = self.call(Some(id), "interaction.respond", params).await?;
            if result["accepted"] == false {
                eprintln!("{}", crate::command::sessions::answer_text(&result));
            }
        }
    }

    /// Asks as the one the session belongs to, or as the person on this machine.
    pub(super) async fn call(
        &self,
        id: Option<&str>,
        method: &str,
        mut params: Value,
    ) -> anyhow::Result<Value> {
        let mut info = ConnectionInfo::new("store");
        if let Some(id) = id.and_then(|id| id.parse::<SessionId>().ok())
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

/// The result of a reply; its error in a sentence.
fn result_of(reply: &Value) -> anyhow::Result<Value> {
    if let Some(result) = reply.get("result") {
        return Ok(result.clone());
    }
    let error = &reply["error"];
    let message = error["message"].as_str().unwrap_or("the server's answer makes no sense");
    match error["data"]["details"].as_str() {
        Some(details) => anyhow::bail!("{message} ({details})"),
        None => anyhow::bail!("{message}"),
    }
}

/// Who asks, for requests that stand alone.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo":
            {"name": "mcp-flow", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
