//! Runs flows: async functions that can ask, and survive being interrupted.
//!
//! ```
//! use mcp_flow_engine::{Definition, Engine, Flow, FlowResult, Standing, Start};
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
//!         return flow.decline("nobody was registered");
//!     }
//!     flow.step("save", || async { std::io::Result::Ok(format!("{name} is in")) }).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), mcp_flow_engine::EngineError> {
//! let engine = Engine::builder(Arc::new(MemoryStore::new()))
//!     .flow(Definition::new("register", register))
//!     .start();
//! let owner = Owner::local();
//!
//! let view = engine.start(Start::new("register", owner.clone())).await?;
//! engine.respond(view.id, &owner, json!("Ada").into()).await?;
//! let reply = engine.respond(view.id, &owner, json!(true).into()).await?;
//! let Standing::Ended(ended) = &reply.view().standing else { panic!("all was answered") };
//! # let _ = ended;
//! # engine.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! The path of an answer: [`Engine::respond`] finds the session (`live`), decides by its rules
//! whether the answer counts, lets the flow go on (`run`), writes to the store what that led to
//! (`turn`), and tells whoever listens (`notice`). Only then is anyone answered.

mod builder;
mod change;
mod clock;
mod definition;
mod digest;
mod engine;
mod error;
mod flow;
mod limits;
mod live;
mod notice;
mod quota;
mod run;
mod shared;
mod stateless;
mod sweep;
mod turn;
mod view;

pub use builder::EngineBuilder;
pub use change::{Change, Changes};
pub use clock::{Clock, SystemClock};
pub use definition::{BadParams, Definition};
pub use engine::{Engine, Reply, Response, Seen, Start};
pub use error::EngineError;
pub use flow::{Flow, FlowError, FlowResult};
pub use limits::Limits;
pub use mcp_flow_rate::Rate;
pub use mcp_flow_session as model;
pub use notice::{Notice, Subscription};
pub use stateless::{BadToken, Stateless};
pub use view::{OpenQuestion, Standing, View};
