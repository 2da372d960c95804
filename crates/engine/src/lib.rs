//! Runs flows: async functions that ask questions and survive restarts.
//!
//! ```
//! use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, SessionStatus, StartRequest};
//! use mcp_flow_session::{MemoryStore, Owner, question::{confirm, text}};
//! use serde_json::json;
//! use std::sync::Arc;
//!
//! #[derive(serde::Deserialize)]
//! struct Params {}
//!
//! async fn register(flow: Flow, _: Params) -> FlowResult<String> {
//!     let name = flow.ask("name", text("Enter name")).await?;
//!     if !flow.ask("sure", confirm(format!("Register {name}?"))).await? {
//!         return flow.decline("not registered");
//!     }
//!     flow.step("save", || async { std::io::Result::Ok(format!("registered {name}")) }).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_flow_engine::EngineError> {
//! let engine = Engine::builder(Arc::new(MemoryStore::new()))
//!     .flow(Definition::new("register", register))
//!     .start();
//! let owner = Owner::local();
//!
//! let view = engine.start(StartRequest::new("register", owner.clone())).await?;
//! engine.respond(view.id, &owner, json!("Ada").into()).await?;
//! let reply = engine.respond(view.id, &owner, json!(true).into()).await?;
//! let SessionStatus::Ended(ended) = &reply.view().status else { panic!("it should have ended") };
//! # let _ = ended;
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Structure
//!
//! [`Engine`] → `Slot` → [`Session`](mcp_flow_session::Session):
//!
//! - [`Engine`] is a handle to the store, the flow definitions and the slots in memory (`slots`).
//!   It loads sessions, starts them (`engine::start`), answers them (`engine::respond`) and runs
//!   maintenance: expiry, recovery, eviction (`maintenance`).
//! - `Slot` is one session in memory: the future of its flow, the lock for its turns, and the
//!   `Execution` that the engine shares with the [`Flow`] handle inside the future. An idle slot can
//!   be dropped at any time.
//! - `Session` is pure state, rebuilt from the journal. It decides which event a command causes.
//!
//! A turn, from an answer to the next question: [`Engine::respond`] finds or loads the slot and
//! locks its turn; `Execution` decides whether the answer is valid; `Slot::poll` runs the flow;
//! `turn` appends the new events to the store. Only then do subscribers (`notice`) and the caller
//! learn of them.
//!
//! Several processes may share a store. Each is a node with a lease (`membership`), learns what the
//! others do (`follow`), and passes answers to the node that works on a session (`forward`).
//!
//! [`ClientHeldSessions`] runs the same turns on sessions that clients keep in signed tokens.

mod builder;
mod check;
mod client_held;
mod clock;
mod cluster;
mod definition;
mod digest;
mod due;
mod engine;
mod error;
mod execution;
mod flow;
mod follow;
mod forward;
mod history;
mod limits;
mod links;
mod maintenance;
mod membership;
mod notice;
mod quota;
mod rewind;
mod search;
mod session_changes;
mod signals;
mod slot;
mod slots;
mod trace;
mod turn;
mod view;

pub use builder::{EngineBuilder, StepHook};
pub use check::HistoryError;
pub use client_held::{BadToken, ClientHeldSessions};
pub use clock::{Clock, SystemClock};
pub use cluster::ClusterMember;
pub use definition::{BadParams, Definition};
pub use engine::{AnswerReply, AnswerRequest, Engine, SeenTurn, StartRequest};
pub use error::EngineError;
pub use flow::{
    Blocking, BoxError, Flow, FlowAsk, FlowError, FlowResult, FlowStep, FlowTimeout, LinkedAsk,
    Once, OnceWithKey, Repeated, RepeatedBlocking, RepeatedWithKey, Retry, StepError, StepFn,
    StepFnWithKey,
};
pub use history::{BadHistory, SessionHistory};
pub use limits::SessionLimits;
pub use links::{FoundLink, LinkReply};
pub use mcp_flow_rate::Rate;
pub use mcp_flow_session as model;
pub use notice::{ExpirySender, Notice, SessionSubscription};
pub use search::{FoundSessions, SessionSearch};
pub use session_changes::{SessionChange, SessionChanges};
pub use signals::SignalReply;
pub use view::{OpenQuestion, QuestionId, SessionStatus, View};
