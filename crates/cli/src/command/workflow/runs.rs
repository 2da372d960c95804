//! Runs in a store at rest: which there are, and one of them as Markdown.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::session::store::{Filter, Page};
use mcp_flow::session::{Session, SessionId, Store};
use mcp_flow::workflow::runs::{FLOW, Record};

use crate::show::print;
use crate::store::{Kept, StoreUrl, open};

pub(super) fn list(url: &StoreUrl) -> anyhow::Result<ExitCode> {
    let store = opened(url)?;
    let lines = wait(async {
        let mut lines = Vec::new();
        let mut after = None;
        loop {
            let listed = store.list(Filter::default(), Page { after, most: PAGE }).await?;
            let Some(last) = listed.last() else { return anyhow::Ok(lines) };
            after = Some(last.id);
            for run in listed.iter().filter(|run| run.summary.flow == FLOW) {
                let record = session(&*store, run.id).await?.as_ref().map(Record::of);
                let record = record.unwrap_or_default();
                let (state, steps) = (run.summary.state.name(), record.steps.len());
                lines.push(format!(
                    "{}  {state:<12}  {steps:>3} done  {}",
                    run.id, record.workflow_id
                ));
            }
        }
    })?;
    print(&if lines.is_empty() { "There are no runs.".to_owned() } else { lines.join("\n") })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn export(url: &StoreUrl, id: &str) -> anyhow::Result<ExitCode> {
    let store = opened(url)?;
    let id: SessionId = id.parse().context("this is not the id of a run")?;
    let found = wait(session(&*store, id))?.filter(|session| session.started.flow == FLOW);
    let session = found.context("there is no such run in this store")?;
    print(&Record::of(&session).markdown(id, session.state.name()))?;
    Ok(ExitCode::SUCCESS)
}

async fn session(store: &dyn Store, id: SessionId) -> anyhow::Result<Option<Session>> {
    Session::replay(&store.read(id).await?).context("the journal of the run is damaged")
}

fn opened(url: &StoreUrl) -> anyhow::Result<Arc<dyn Store>> {
    if let StoreUrl::Redb(path) = url
        && !path.exists()
    {
        anyhow::bail!("there is no store at {}", path.display());
    }
    let Kept { store, .. } = open(Some(url))?;
    store.context("what is kept in memory is gone; name a store on disk")
}

fn wait<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

const PAGE: usize = 256;
