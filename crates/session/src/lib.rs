//! Conversations as pure data.
//!
//! A [`Prompt`] is one question as a client sees it, a [`Question`] the same with the type of its
//! answer; both are checked by one set of rules, wherever the answer comes from. A [`Session`] is
//! what a conversation has become, folded from the [`Event`]s of its journal; [`Replay`] hands the
//! same journal to a flow that runs again from the top. A [`Store`] keeps journals.
//!
//! Nothing here does I/O, waits, or looks at a clock: time and randomness come in as arguments.
//!
//! ```
//! use mcp_flow_session::question::{Question, text};
//! use serde_json::json;
//!
//! let question = text("Where to?").length(2..=50);
//! let prompt = question.prompt();
//! assert!(prompt.check(&json!("Oslo")).is_ok());
//! assert_eq!(prompt.check(&json!("X")).unwrap_err().error, "at least 2 characters are needed");
//! ```

mod check;
pub mod event;
mod id;
pub mod prompt;
pub mod question;
pub mod replay;
pub mod session;
pub mod store;
mod time;

pub use check::{BadPrompt, Violation, is_empty, limits};
pub use event::{Ending, Event, Fault, FaultName};
pub use id::{BadSessionId, Owner, SessionId};
pub use jiff::civil::Date;
pub use mcp_flow_schema::is_affordable;
pub use prompt::{Prompt, PromptType};
pub use question::Question;
pub use replay::{Divergence, Replay};
pub use session::{Command, Refusal, Session, State};
pub use store::{MemoryStore, Store, StoreError};
pub use time::Timestamp;
