//! Client-held sessions: the whole session is in a signed token (C-43).

mod guard;
mod token;

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_seal::KeyRing;
use mcp_flow_session::event::{Ending, FaultName, SessionEnded};
use mcp_flow_session::store::{Append, Fence, LastTurn, ReplayGuard};
use mcp_flow_session::{
    Command, JournalEvent, MemoryStore, Owner, Session, SessionId, Store, Timestamp,
};

use crate::engine::{AnswerReply, AnswerRequest, Engine, StartRequest};
use crate::error::EngineError;
use crate::view::{SessionStatus, View};

use guard::Guard;
pub use token::BadToken;
use token::Token;

/// Runs flows whose sessions are held by the client and not stored here.
///
/// Every reply has a token with the whole journal; the next request brings it back. A token is
/// signed but not encrypted, and accepted from its owner only. Without a
/// [`replay_guard`](Self::replay_guard) an old token is accepted again, and the session continues
/// from there a second time.
///
/// ```
/// # use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, StartRequest, ClientHeldSessions};
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
/// let stateless = ClientHeldSessions::new(&engine, ring);
/// let owner = Owner::local();
///
/// let (view, token) = stateless.start(StartRequest::new("greet", owner.clone())).await?;
/// let answer = serde_json::json!("Ada").into();
/// let (reply, token) = stateless.respond(&token, &owner, answer).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ClientHeldSessions {
    engine: Engine,
    keys: Arc<KeyRing>,
    guard: Option<Arc<Guard>>,
    timeout: Duration,
}

impl ClientHeldSessions {
    /// Runs the flows of an engine within its limits, and signs tokens with these keys.
    pub fn new(engine: &Engine, keys: KeyRing) -> Self {
        let timeout = engine.inner.limits.operation;
        Self { engine: engine.clone(), keys: Arc::new(keys), guard: None, timeout }
    }

    /// Records the last turn of each session in this guard, and rejects tokens of earlier turns and
    /// of ended sessions (INT-133). With a durable guard they are rejected after a restart, too.
    #[must_use]
    pub fn replay_guard(mut self, guard: Arc<dyn ReplayGuard>) -> Self {
        self.guard = Some(Arc::new(Guard::new(guard)));
        self
    }

    /// Starts a session, and waits until its flow asks or ends.
    pub async fn start(&self, start: StartRequest) -> Result<(View, String), EngineError> {
        self.start_within(self.timeout, start).await
    }

    /// Starts a session like [`start`](Self::start), within a timeout.
    pub async fn start_within(
        &self,
        limit: Duration,
        start: StartRequest,
    ) -> Result<(View, String), EngineError> {
        let store = Arc::new(MemoryStore::new());
        let engine = self.engine.with_store(Arc::clone(&store) as Arc<dyn Store>);
        let owner = start.owner.clone();
        let view = match engine.start(start).await {
            Ok(view) => self.wait_settled(&engine, view.id, &owner, limit).await,
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
        response: AnswerRequest,
    ) -> Result<(AnswerReply, String), EngineError> {
        self.respond_within(self.timeout, token, owner, response).await
    }

    /// Answers like [`respond`](Self::respond), within a timeout.
    pub async fn respond_within(
        &self,
        limit: Duration,
        token: &str,
        owner: &Owner,
        response: AnswerRequest,
    ) -> Result<(AnswerReply, String), EngineError> {
        let (sessions, caller) = (self.clone(), owner.clone());
        self.turn(token, owner, async move |engine, id| {
            let reply = engine.respond(id, &caller, response).await?;
            let view = sessions.wait_settled(&engine, id, &caller, limit).await?;
            Ok(match reply {
                AnswerReply::Accepted(_) => AnswerReply::Accepted(view),
                other => other,
            })
        })
        .await
    }

    /// Cancels the session in a token. Without a guard, earlier tokens are still accepted.
    pub async fn cancel(
        &self,
        token: &str,
        owner: &Owner,
        reason: Option<String>,
    ) -> Result<(View, String), EngineError> {
        let (sessions, caller) = (self.clone(), owner.clone());
        self.turn(token, owner, async move |engine, id| {
            engine.cancel(id, &caller, reason).await?;
            // Until its compensations have run.
            sessions.wait_settled(&engine, id, &caller, sessions.timeout).await
        })
        .await
    }

    /// Completes the session in a token with the data gathered so far (C-08).
    pub async fn finish(&self, token: &str, owner: &Owner) -> Result<(View, String), EngineError> {
        let caller = owner.clone();
        self.turn(token, owner, async move |engine, id| engine.finish(id, &caller).await).await
    }

    /// Returns the whole state of the session in a token. An expired session is retained as long as
    /// any other (C-55).
    pub async fn inspect(&self, token: &str, owner: &Owner) -> Result<Session, EngineError> {
        let token = Token::open(token, &self.keys)?;
        let session = self.owned(&token, owner)?;
        self.check_newest(&token).await?;
        let inner = &self.engine.inner;
        match self.engine.expired(&session) {
            Some(mut expired) => {
                // Nothing runs compensations of a session whose client has not come back.
                let bounds = &inner.limits.bounds;
                if let Ok(ended) = expired.decide(Command::Close, self.engine.now(), bounds) {
                    expired.apply(ended).map_err(|_| BadToken::Malformed)?;
                }
                let retention = inner.limits.bounds.retention;
                let until = session.deadline().map(|deadline| deadline.after(retention));
                let is_erased = until.is_some_and(|until| until <= self.engine.now());
                if is_erased { Err(EngineError::NotFound) } else { Ok(expired) }
            }
            None => Ok(session),
        }
    }

    /// Returns the status of the session in a token.
    pub async fn view(&self, token: &str, owner: &Owner) -> Result<View, EngineError> {
        let token = Token::open(token, &self.keys)?;
        let Loaded { engine, .. } = self.load(&token, owner).await?;
        self.check_newest(&token).await?;
        engine.view(token.id, owner).await
    }

    /// Returns the session of a token, if the token is valid.
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
        let (sessions, tasks) = (self.clone(), &self.engine.inner.tasks);
        let turn = async move { sessions.run_turn(&token, loaded, work).await };
        let turn = tasks.spawn(mcp_flow_telemetry::inherit(turn));
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
            Some(guard) if !has_ended(&token.journal) => {
                Some(guard.acquire(id, count(&token.journal)).await?)
            }
            _ => None,
        };
        let done = tokio::select! {
            done = work(engine.clone(), id) => done,
            () = self.engine.inner.stopping.cancelled() => Err(EngineError::ShuttingDown),
        };
        engine.shutdown().await;
        let done = done?;
        let journal = store.read(id).await?;
        if let Some(permit) = permit {
            let turn = if has_ended(&journal) { u64::MAX } else { count(&journal) };
            let session = Session::replay(&journal).ok().flatten();
            let next = session.and_then(|session| session.deadline());
            // Past this time neither this token nor the next is accepted, not even by `inspect`.
            let retention = self.engine.inner.limits.bounds.retention;
            let until = deadline.zip(next).map(|(one, other)| one.max(other).after(retention));
            let until = until.unwrap_or(Timestamp::NEVER);
            permit.record(LastTurn { id, turn, until, at: self.engine.now() }).await?;
        }
        Ok((done, Token { id, journal }.seal(&self.keys)))
    }

    /// Rejects a token if the guard has recorded a later turn.
    async fn check_newest(&self, token: &Token) -> Result<(), EngineError> {
        match &self.guard {
            Some(guard) if !has_ended(&token.journal) => {
                guard.check(token.id, count(&token.journal)).await
            }
            _ => Ok(()),
        }
    }

    /// Loads the session of a token into an engine of its own, if it is live and belongs to the
    /// owner (INT-133).
    async fn load(&self, token: &Token, owner: &Owner) -> Result<Loaded, EngineError> {
        let session = self.owned(token, owner)?;
        if let Some(limit) = session.overdue(self.engine.now()) {
            return Err(EngineError::Expired(limit));
        }
        let store = Arc::new(MemoryStore::new());
        let events = token.journal.clone();
        let (summary, deadline) = (session.summary(), session.deadline());
        let fence = Fence::default();
        let append = Append { id: token.id, length: 0, events, summary, replace: false, fence };
        store.append(append).await?;
        let engine = self.engine.with_store(Arc::clone(&store) as Arc<dyn Store>);
        Ok(Loaded { engine, store, deadline })
    }

    /// Returns the session in a token, if it belongs to the owner and is retained.
    fn owned(&self, token: &Token, owner: &Owner) -> Result<Session, EngineError> {
        let session = Session::replay(&token.journal).map_err(|_| BadToken::Malformed)?;
        let session = session.ok_or(BadToken::Malformed)?;
        if session.started.owner != *owner {
            return Err(self.engine.deny_access());
        }
        // No maintenance erases client-held sessions, so their retention is enforced here (C-11).
        let now = self.engine.now();
        if session.ended.as_ref().is_some_and(|ended| ended.until <= now) {
            return Err(EngineError::NotFound);
        }
        Ok(session)
    }

    /// Waits until the flow asks or ends, since a token cannot hold a running step. A timeout
    /// changes nothing: the client still has its token (C-41).
    async fn wait_settled(
        &self,
        engine: &Engine,
        id: SessionId,
        owner: &Owner,
        limit: Duration,
    ) -> Result<View, EngineError> {
        if engine.view(id, owner).await?.is_asleep() {
            // Wakes it, if that is soon enough.
            engine.start_maintenance();
        }
        let view = engine.wait(id, owner, limit.min(self.timeout)).await?;
        let operation = match &view.status {
            // What the flow waits for cannot reach a session that only its client has.
            SessionStatus::Working(_) if view.is_asleep() => {
                Some(if view.wakes.is_some() { "sleep" } else { "signal" }.to_owned())
            }
            SessionStatus::Working(_) => {
                engine.inner.slots.get(id).and_then(|slot| slot.execution.operation())
            }
            SessionStatus::Ended(SessionEnded { ending: Ending::Failed(fault), .. })
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

/// A session loaded from its token.
struct Loaded {
    engine: Engine,
    store: Arc<MemoryStore>,
    /// Time at which the token expires.
    deadline: Option<Timestamp>,
}

fn count(journal: &[JournalEvent]) -> u64 {
    u64::try_from(journal.len()).unwrap_or(u64::MAX)
}

fn has_ended(journal: &[JournalEvent]) -> bool {
    matches!(journal.last(), Some(JournalEvent::Ended(_)))
}
