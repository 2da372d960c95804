//! Sessions in an offline store, served by a server inside this process.

use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::engine::{Engine, SessionHistory};
use mcp_flow::session::prompt::Prompt;
use mcp_flow::session::{JournalEvent, Owner, Session, SessionId, Store};
use mcp_flow::workflow::Library;
use mcp_flow::workflow::runs::Runs;
use mcp_flow::{ConnectionInfo, Interaction, Principal, RpcError, Server};
use mcp_flow_declarative::ToolLibrary;
use mcp_flow_gateway::OfflineCalls;
use serde_json::{Map, Value, json};

use crate::client::prompter::Prompter;
use crate::exit::{Exit, Failure};
use crate::server::diagnostics;
use crate::server::store::{self, OpenedStore, StoreUrl};
use crate::terminal::ask::question::Question;

pub(crate) struct OfflineSessions {
    store: Arc<dyn Store>,
    engine: Engine,
    server: Server,
    /// Flows of tool files, as the journals have them.
    recorded: ToolLibrary,
    /// Calls of servers behind a gateway.
    calls: OfflineCalls,
}

impl OfflineSessions {
    /// Opens an existing store.
    pub(super) fn open(url: &StoreUrl, library: &Library) -> anyhow::Result<Self> {
        match url {
            StoreUrl::Redb(path) | StoreUrl::Sqlite(path)
                if !path.exists() && !path.with_extension("redb").exists() =>
            {
                anyhow::bail!("no store found at {}", path.display())
            }
            url => Self::create(url, library),
        }
    }

    /// Opens a store, creating it if it does not exist.
    pub(super) fn create(url: &StoreUrl, library: &Library) -> anyhow::Result<Self> {
        let gone = "sessions in memory end with their server; use a store on disk: sqlite:PATH";
        let opened = store::open_url(url).map_err(|problem| {
            anyhow::anyhow!(
                "cannot open the store {url}: {:#}. If a server uses it, name that server with --url",
                anyhow::Error::new(problem)
            )
        })?;
        let OpenedStore { store, keys, .. } = opened.context(gone)?;
        let store = store.context(gone)?;
        let runs = Runs::new(library.clone(), keys);
        let run = runs.flow();
        let flows = Interaction::builder().flows(mcp_flow_examples::flows());
        let flows = flows.flows(diagnostics::paid_order()).store(store.clone());
        let (recorded, calls) = (ToolLibrary::offline(), OfflineCalls::new());
        let call = calls.flow();
        let library = recorded.clone();
        let flows = flows.engine(move |engine| {
            let define = move |name: &str, events: &[JournalEvent]| {
                library.recorded_definition(name, events)
            };
            engine.flow(run).flow(call).recorded_flows(define)
        });
        // No step is started that would be cut off when this process ends.
        let interaction = flows.offline().build();
        let server = interaction.add_to(Server::builder("mcp-flow", env!("CARGO_PKG_VERSION")));
        let server = runs.add_to(interaction.engine(), server);
        let engine = interaction.engine().clone();
        Ok(Self { store, engine, server: server.build()?, recorded, calls })
    }

    /// Lists the sessions of all owners: access to the file is access to all.
    pub(super) async fn list(&self, mut search: Map<String, Value>) -> anyhow::Result<Vec<Value>> {
        let owner = search.remove("owner");
        let owner = owner.as_ref().and_then(Value::as_str).map(Owner::new);
        let search = mcp_flow::read_search(search, owner).map_err(|error| refused(&error))?;
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let found = self.engine.search(&search, after, PAGE).await?;
            all.extend(found.sessions.iter().map(mcp_flow::describe_session));
            after = found.next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Adds a session from its history: access to the file is the permission.
    pub(super) async fn import(&self, history: &Value, new_id: bool) -> anyhow::Result<Value> {
        let history = SessionHistory::read(history)?;
        let view = self.engine.import(history, new_id).await?;
        Ok(json!({"sessionId": view.id.to_string(), "state": view.state.name()}))
    }

    /// Answers the questions of a session until it ends.
    pub(super) async fn resume(&self, prompter: &Prompter, id: &str) -> anyhow::Result<Value> {
        let params = || json!({"sessionId": id});
        let mut result = self.call(Some(id), "interaction.continue", params()).await?;
        loop {
            let next = result["next"].take();
            if let Some(complete) = next.get("complete") {
                let mut end = complete.clone();
                end["sessionId"] = id.into();
                return Ok(end);
            }
            let Some(prompt) = next.get("prompt") else {
                if self.is_left_to_server(id) {
                    return Err(Failure::new(Exit::Failed, LEFT_TO_SERVER).into());
                }
                if !crate::command::sessions::is_at_work(&next) {
                    return Err(Failure::new(Exit::Failed, ASLEEP).into());
                }
                result = self.call(Some(id), "interaction.continue", params()).await?;
                continue;
            };
            let key = prompt["metadata"]["key"].as_str().unwrap_or("answer");
            let prompt: Prompt = serde_json::from_value(prompt.clone())?;
            let value = prompter.answer_prompt(id, Question::of_prompt(key, prompt)).await?;
            let mut params = params();
            params["response"] = json!({"value": value});
            result = self.call(Some(id), "interaction.respond", params).await?;
            if result["accepted"] == false {
                eprintln!("{}", crate::command::sessions::answer_text(&result));
            }
        }
    }

    /// Returns whether a session waits with a call of a tool that only its server has.
    pub(super) fn is_left_to_server(&self, id: &str) -> bool {
        id.parse()
            .is_ok_and(|id| self.recorded.is_left_to_server(id) || self.calls.is_left_to_server(id))
    }

    /// Calls a method as the owner of the session, or as the local principal.
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
        let reply = connection
            .output()
            .await
            .context("the server closed the connection without a response")?;
        result_of(&serde_json::from_slice(reply.lines())?)
    }
}

const PAGE: usize = 256;

const LEFT_TO_SERVER: &str = "the answers are recorded, and the session calls a tool now, which only its \
                              server can do; it continues when that server runs";

const ASLEEP: &str = "the session has no question now: its flow sleeps, or waits for a signal; see \
                      `mcp-flow sessions show`";

fn refused(error: &RpcError) -> anyhow::Error {
    Failure::new(Exit::Usage, error.text().to_owned()).into()
}

/// Returns the result of a response, or its error as a sentence.
fn result_of(reply: &Value) -> anyhow::Result<Value> {
    if let Some(result) = reply.get("result") {
        return Ok(result.clone());
    }
    let error = &reply["error"];
    let message = error["message"]
        .as_str()
        .unwrap_or("the response has neither a result nor an error message");
    let (from, to) = (&error["data"]["from"], &error["data"]["to"]);
    if let (Some(from), Some(to)) = (from.as_str(), to.as_str()) {
        anyhow::bail!("{message} from {from} to {to}");
    }
    match error["data"]["details"].as_str() {
        Some(details) => anyhow::bail!("{message} ({details})"),
        None => anyhow::bail!("{message}"),
    }
}

/// Metadata of a stateless request.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo":
            {"name": "mcp-flow", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
