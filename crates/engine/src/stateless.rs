//! Sessions that the client keeps: all of a session is in a signed token (C-43).

mod guard;
mod token;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::event::{Ended, Ending, FaultName};
use mcp_flow_session::store::{Append, LastTurn, ReplayGuard};
use mcp_flow_session::{Event, MemoryStore, Owner, Session, SessionId, Store, Timestamp};

use crate::engine::{Engine, Reply, Response, Start};
use crate::error::EngineError;
use crate::view::{Standing, View};

use guard::Guard;
pub use token::BadToken;
use token::Token;

/// Runs flows without keeping anything of their sessions.
///
/// Every reply comes with a token that holds the whole journal; the next request brings it back.
/// A token can be read by who has it, but not changed, and is good for its owner only. Without a
/// guard an old token can be used again: the session goes on from there a second time.
///
/// ```
/// # use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, Start, Stateless};
/// # use mcp_flow_session::{MemoryStore, Owner, question::text};
/// # use mcp_flow_seal::{Key, KeyRing};
/// # use std::sync::Arc;
/// # #[derive(serde::Deserialize)] struct Params {}
/// # async fn greet(flow: Flow, _: Params) -> FlowResult<String> { flow.ask("name", text("Name?")).await }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_flow_engine::EngineError> {
/// # let ring = KeyRing::new(Key::from_bytes([1; 32]));
/// let engine = Engine::builder(Arc::new(MemoryStore::new()))
///     .flow(Definition::new("greet", greet))
///     .build();
/// let stateless = Stateless::new(&engine, ring);
/// let owner = Owner::local();
///
/// let (view, token) = stateless.start(Start::new("greet", owner.clone())).await?;
/// let answer = serde_json::json!("Ada").into();
/// let (reply, token) = stateless.respond(&token, &owner, answer).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stateless {
    template: Engine,
    keys: KeyRing,
    guard: Option<Arc<Guard>>,
    patience: Duration,
}

impl Stateless {
    /// Runs the flows of an engine, within its limits, and signs with these keys.
    pub fn new(engine: &Engine, keys: KeyRing) -> Self {
        let patience = engine.core.limits.operation;
        Self { template: engine.clone(), keys, guard: None, patience }
    }

    /// Keeps one number for each session in this guard, and refuses tokens of earlier turns and of
    /// sessions that are over (INT-133). One that outlives the process refuses them after a restart,
    /// too.
    #[must_use]
    pub fn replay_guard(mut self, guard: Arc<dyn ReplayGuard>) -> Self {
        self.guard = Some(Arc::new(Guard::new(guard)));
        self
    }

    /// Starts a flow, and waits until it asks or ends.
    pub async fn start(&self, start: Start) -> Result<(View, String), EngineError> {
        self.start_within(self.patience, start).await
    }

    /// As [`start`](Self::start), waiting no longer than this.
    pub async fn start_within(
        &self,
        limit: Duration,
        start: Start,
    ) -> Result<(View, String), EngineError> {
        let store = Arc::new(MemoryStore::new());
        let engine = self.template.core.beside(Arc::clone(&store) as Arc<dyn Store>);
        let owner = start.owner.clone();
        let view = match engine.start(start).await {
            Ok(view) => self.settled(&engine, view.id, &owner, limit).await,
            Err(error) => Err(error),
        };
        engine.shutdown().await;
        let view = view?;
        let token = self.token(view.id, &store).await?;
        Ok((view, token))
    }

    /// Answers the open question of the session in a token.
    pub async fn respond(
        &self,
        token: &str,
        owner: &Owner,
        response: Response,
    ) -> Result<(Reply, String), EngineError> {
        self.respond_within(self.patience, token, owner, response).await
    }

    /// As [`respond`](Self::respond), waiting for the flow no longer than this.
    pub async fn respond_within(
        &self,
        limit: Duration,
        token: &str,
        owner: &Owner,
        response: Response,
    ) -> Result<(Reply, String), EngineError> {
        let (sessions, caller) = (self.clone(), owner.clone());
        self.turn(token, owner, async move |engine, id| {
            let reply = engine.respond(id, &caller, response).await?;
            let view = sessions.settled(&engine, id, &caller, limit).await?;
            Ok(match reply {
                Reply::Accepted(_) => Reply::Accepted(view),
                other => other,
            })
        })
        .await
    }

    /// Ends the session in a token. Only a guard can keep earlier tokens from being used.
    pub async fn cancel(
        &self,
        token: &str,
        owner: &Owner,
        reason: Option<String>,
    ) -> Result<(View, String), EngineError> {
        let caller = owner.clone();
        self.turn(token, owner, async move |engine, id| engine.cancel(id, &caller, reason).await)
            .await
    }

    /// Finishes the session in a token with what was gathered so far (C-08).
    pub async fn finish(&self, token: &str, owner: &Owner) -> Result<(View, String), EngineError> {
        let caller = owner.clone();
        self.turn(token, owner, async move |engine, id| engine.finish(id, &caller).await).await
    }

    /// All there is to know of the session in a token. The end of one that ran out of time is
    /// remembered as long as any other (C-55).
    pub async fn inspect(&self, token: &str, owner: &Owner) -> Result<Session, EngineError> {
        let token = Token::open(token, &self.keys)?;
        let session = self.owned(&token, owner)?;
        self.check_newest(&token).await?;
        let core = &self.template.core;
        match core.expired(&session) {
            Some(expired) => {
                let remembered = core.limits.bounds.remembered;
                let until = session.deadline().map(|deadline| deadline.after(remembered));
                let is_forgotten = until.is_some_and(|until| until <= self.template.now());
                if is_forgotten { Err(EngineError::NotFound) } else { Ok(expired) }
            }
            None => Ok(session),
        }
    }

    /// Where the session in a token stands.
    pub async fn view(&self, token: &str, owner: &Owner) -> Result<View, EngineError> {
        let token = Token::open(token, &self.keys)?;
        let Loaded { engine, .. } = self.load(&token, owner).await?;
        self.check_newest(&token).await?;
        engine.view(token.id, owner).await
    }

    /// Which session a token is of, if it is one of ours.
    pub fn session(&self, token: &str) -> Option<SessionId> {
        Token::open(token, &self.keys).ok().map(|token| token.id)
    }

    /// Runs one request on the session in a token and seals the result into the next token.
    ///
    /// The turn runs in its own task and is recorded even if the caller goes away: the flow's steps
    /// have had their effects by then, so the token that led to them must not be accepted again.
    /// [`Engine::shutdown`] interrupts it like any other flow at work.
    async fn turn<T, W>(
        &self,
        token: &str,
        owner: &Owner,
        work: impl FnOnce(Engine, SessionId) -> W + Send + 'static,
    ) -> Result<(T, String), EngineError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, EngineError>> + Send + 'static,
    {
        let token = Token::open(token, &self.keys)?;
        // Before a permit is taken: only the owner may use up a turn.
        let loaded = self.load(&token, owner).await?;
        let (sessions, tasks) = (self.clone(), &self.template.core.tasks);
        let turn = tasks.spawn(async move { sessions.run_turn(&token, loaded, work).await });
        match turn.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_)) => Err(EngineError::ShuttingDown),
        }
    }

    async fn run_turn<T, W>(
        &self,
        token: &Token,
        Loaded { engine, store, deadline }: Loaded,
        work: impl FnOnce(Engine, SessionId) -> W,
    ) -> Result<(T, String), EngineError>
    where
        W: Future<Output = Result<T, EngineError>>,
    {
        let id = token.id;
        let permit = match &self.guard {
            // Nothing can follow an end, so there is nothing to guard.
            Some(guard) if !is_over(&token.journal) => {
                Some(guard.acquire(id, count(&token.journal)).await?)
            }
            _ => None,
        };
        let done = tokio::select! {
            done = work(engine.clone(), id) => done,
            () = self.template.core.stopping.cancelled() => Err(EngineError::ShuttingDown),
        };
        engine.shutdown().await;
        let done = done?;
        let journal = store.read(id).await?;
        if let Some(permit) = permit {
            let turn = if is_over(&journal) { u64::MAX } else { count(&journal) };
            let session = Session::replay(&journal).ok().flatten();
            let next = session.and_then(|session| session.deadline());
            // Past this time neither this token nor the next is accepted, not even by `inspect`.
            let remembered = self.template.core.limits.bounds.remembered;
            let until = deadline.zip(next).map(|(one, other)| one.max(other).after(remembered));
            let until = until.unwrap_or(Timestamp::NEVER);
            permit.record(LastTurn { id, turn, until, at: self.template.now() }).await?;
        }
        Ok((done, Token { id, journal }.seal(&self.keys)))
    }

    /// Refuses a token whose session has moved on, as far as that is known.
    async fn check_newest(&self, token: &Token) -> Result<(), EngineError> {
        match &self.guard {
            Some(guard) if !is_over(&token.journal) => {
                guard.check(token.id, count(&token.journal)).await
            }
            _ => Ok(()),
        }
    }

    /// Unpacks a session, if it is its owner's and still good (INT-133).
    async fn load(&self, token: &Token, owner: &Owner) -> Result<Loaded, EngineError> {
        let session = self.owned(token, owner)?;
        if let Some(limit) = session.overdue(self.template.now()) {
            return Err(EngineError::Expired(limit));
        }
        let store = Arc::new(MemoryStore::new());
        let events = token.journal.clone();
        let (summary, deadline) = (session.summary(), session.deadline());
        store.append(Append { id: token.id, length: 0, events, summary, replace: false }).await?;
        let engine = self.template.core.beside(Arc::clone(&store) as Arc<dyn Store>);
        Ok(Loaded { engine, store, deadline })
    }

    /// The session in a token, if it is its owner's and not forgotten.
    fn owned(&self, token: &Token, owner: &Owner) -> Result<Session, EngineError> {
        let session = Session::replay(&token.journal).map_err(|_| BadToken::Malformed)?;
        let session = session.ok_or(BadToken::Malformed)?;
        if session.started.owner != *owner {
            return Err(self.template.core.stranger());
        }
        // Nobody sweeps what is kept nowhere, so a session that is over is forgotten here (C-11).
        let now = self.template.now();
        if session.ended.as_ref().is_some_and(|ended| ended.until <= now) {
            return Err(EngineError::NotFound);
        }
        Ok(session)
    }

    /// Waits until the flow asks or ends: what it is at cannot be put into a token. One that takes
    /// too long has changed nothing, since the client still has its token (C-41).
    async fn settled(
        &self,
        engine: &Engine,
        id: SessionId,
        owner: &Owner,
        limit: Duration,
    ) -> Result<View, EngineError> {
        let view = engine.wait(id, owner, limit.min(self.patience)).await?;
        let operation = match &view.standing {
            Standing::Working(_) => {
                engine.core.live.get(id).and_then(|slot| slot.shared.operation())
            }
            Standing::Ended(Ended { ending: Ending::Failed(fault), .. })
                if fault.name == FaultName::Timeout =>
            {
                fault.operation.clone()
            }
            _ => return Ok(view),
        };
        let operation = operation.unwrap_or_else(|| "flow".to_owned());
        Err(EngineError::Timeout { operation })
    }

    async fn token(&self, id: SessionId, store: &MemoryStore) -> Result<String, EngineError> {
        let journal = store.read(id).await?;
        Ok(Token { id, journal }.seal(&self.keys))
    }
}

/// A session out of its token.
struct Loaded {
    engine: Engine,
    store: Arc<MemoryStore>,
    /// Until when the token can be used.
    deadline: Option<Timestamp>,
}

fn count(journal: &[Event]) -> u64 {
    u64::try_from(journal.len()).unwrap_or(u64::MAX)
}

fn is_over(journal: &[Event]) -> bool {
    matches!(journal.last(), Some(Event::Ended(_)))
}
