//! The engine: what can be done with sessions.

mod core;
mod request;
mod start;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_flow_session::event::{Ending, Fault};
use mcp_flow_session::store::{Census, Filter, Listed, Page};
use mcp_flow_session::{Command, Owner, Session, SessionId, Store, StoreError, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::builder::EngineBuilder;
use crate::change::Changes;
use crate::definition::Definition;
use crate::error::EngineError;
use crate::limits::Limits;
use crate::notice::Subscription;
use crate::view::{Standing, View};

pub(crate) use core::Core;
pub use request::{Reply, Response, Seen, Start};

/// Runs flows and keeps their sessions.
///
/// A handle; clones are the same engine. Every method that names a session also names who asks,
/// and answers strangers as if there were no such session.
#[derive(Clone)]
pub struct Engine {
    pub(crate) core: Arc<Core>,
}

impl Engine {
    /// Begins to set up an engine on a store.
    pub fn builder(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder::new(store)
    }

    /// The flows that can be started, in the order of their names.
    pub fn flows(&self) -> impl Iterator<Item = &Definition> {
        self.core.flows.values().map(Arc::as_ref)
    }

    /// The flow of this name.
    pub fn flow(&self, name: &str) -> Option<&Definition> {
        self.core.flows.get(name).map(Arc::as_ref)
    }

    /// Starts a flow and lets it run until it asks, ends, or has to wait for something else.
    pub async fn start(&self, start: Start) -> Result<View, EngineError> {
        self.core.start(start).await
    }

    /// Answers the open question of a session.
    ///
    /// The flow goes on until it asks, ends, or has to wait for something else, and all of that
    /// is durable before this returns.
    pub async fn respond(
        &self,
        id: SessionId,
        owner: &Owner,
        response: Response,
    ) -> Result<Reply, EngineError> {
        for _ in 1..MOST_TRIES {
            let replied = self.core.respond(id, owner, &response).await;
            if !came_second(&replied) {
                return replied;
            }
        }
        self.core.respond(id, owner, &response).await
    }

    /// Where a session stands. Changes nothing (INT-061).
    pub async fn view(&self, id: SessionId, owner: &Owner) -> Result<View, EngineError> {
        self.core.view(id, owner).await
    }

    /// All there is to know of a session: its history, its data, its end. Changes nothing.
    pub async fn inspect(&self, id: SessionId, owner: &Owner) -> Result<Session, EngineError> {
        self.core.inspect(id, owner).await
    }

    /// Waits until a session is not at work any more, or for so long.
    pub async fn wait(
        &self,
        id: SessionId,
        owner: &Owner,
        patience: Duration,
    ) -> Result<View, EngineError> {
        let until = Instant::now() + patience;
        // Listening is not for free, and mostly there is nothing to wait for.
        let view = self.view(id, owner).await?;
        if !matches!(view.standing, Standing::Working(_)) {
            return Ok(view);
        }
        // Before looking again, so that nothing is missed in between.
        let mut subscription = self.subscribe(id, owner).await?;
        loop {
            let view = self.view(id, owner).await?;
            if !matches!(view.standing, Standing::Working(_)) {
                return Ok(view);
            }
            match timeout_at(until, subscription.next()).await {
                Ok(Some(_)) => {}
                Ok(None) => return self.view(id, owner).await,
                Err(_) => return Ok(view),
            }
        }
    }

    /// Listens to what happens in a session from now on.
    pub async fn subscribe(
        &self,
        id: SessionId,
        owner: &Owner,
    ) -> Result<Subscription, EngineError> {
        self.core.subscribe(id, owner).await
    }

    /// Listens to what becomes of all sessions from now on, whoever they belong to: for those who
    /// look after the engine. Who may know of which session is up to the caller.
    pub fn changes(&self) -> Changes {
        self.core.hub.watchers.subscribe()
    }

    /// Ends a session, whatever it is at. Work that can be stopped is stopped.
    pub async fn cancel(
        &self,
        id: SessionId,
        owner: &Owner,
        reason: Option<String>,
    ) -> Result<View, EngineError> {
        let reason = reason.map(|reason| reason.chars().take(LONGEST_REASON).collect());
        self.end(id, owner, Command::End(Ending::Cancelled { reason })).await
    }

    /// Finishes a session with what was gathered so far, if its flow allows that (C-08).
    pub async fn finish(&self, id: SessionId, owner: &Owner) -> Result<View, EngineError> {
        self.end(id, owner, Command::Finish).await
    }

    /// Lists sessions of an owner, in the order of their ids.
    pub async fn list(
        &self,
        owner: &Owner,
        phase: mcp_flow_session::store::Phase,
        page: Page,
    ) -> Result<Vec<Listed>, EngineError> {
        let filter = Filter { owner: Some(owner.clone()), phase };
        Ok(self.core.store.list(filter, page).await?)
    }

    /// Lists sessions of everyone, or of one owner, in the order of their ids: for those who look
    /// after the engine.
    pub async fn list_all(&self, filter: Filter, page: Page) -> Result<Vec<Listed>, EngineError> {
        Ok(self.core.store.list(filter, page).await?)
    }

    /// How many sessions there are, of everyone, by where they stand: for those who look after the
    /// engine. What expires is not counted any more, whether or not anyone asks for it (INT-074).
    pub async fn census(&self) -> Result<Census, EngineError> {
        Ok(self.core.store.census().await?)
    }

    /// How much sessions may take.
    pub fn limits(&self) -> &Limits {
        &self.core.limits
    }

    /// Ends what is overdue, warns of what soon will be, and lets go of what need not be in
    /// memory. The engine does this by itself twice a second; tests do it when they want.
    pub async fn sweep(&self) -> Result<(), EngineError> {
        self.core.sweep().await
    }

    /// Ends a session because something went wrong with it outside its flow.
    pub async fn fail(
        &self,
        id: SessionId,
        owner: &Owner,
        fault: Fault,
    ) -> Result<View, EngineError> {
        self.end(id, owner, Command::End(Ending::Failed(fault))).await
    }

    /// Has the engine take up what was interrupted and sweep from time to time, if it does not
    /// yet. To be called within a tokio runtime; [`shutdown`](Engine::shutdown) ends it.
    pub fn run(&self) {
        if !self.core.running.swap(true, Ordering::AcqRel) {
            self.core.tasks.spawn(Arc::clone(&self.core).keep_house());
        }
    }

    /// The time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.core.clock.now()
    }

    /// How many sessions are in memory.
    pub fn live(&self) -> usize {
        self.core.live.len()
    }

    /// How often someone tried what belongs to someone else, and was told it is not there.
    pub fn strangers(&self) -> u64 {
        self.core.strangers.load(Ordering::Relaxed)
    }

    /// Stops all work and waits until it has stopped. Sessions are taken up again by the next
    /// engine on the same store.
    pub async fn shutdown(&self) {
        self.core.stopping.cancel();
        self.core.tasks.close();
        self.core.tasks.wait().await;
    }

    async fn end(
        &self,
        id: SessionId,
        owner: &Owner,
        command: Command,
    ) -> Result<View, EngineError> {
        for _ in 1..MOST_TRIES {
            let ended = self.core.end(id, owner, command.clone()).await;
            if !came_second(&ended) {
                return ended;
            }
        }
        self.core.end(id, owner, command).await
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("live", &self.live()).finish_non_exhaustive()
    }
}

/// Whether another writer came first, so that this has to be tried again: what that one wrote decides.
/// It may be another process, or a request whose sender went away while it was being written.
fn came_second<T>(done: &Result<T, EngineError>) -> bool {
    matches!(done, Err(EngineError::Store(StoreError::Conflict(_))))
}

const MOST_TRIES: usize = 4;

const LONGEST_REASON: usize = 1000;
