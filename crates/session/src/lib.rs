//! Sessions as pure data: prompts, journal, replay, and the store trait.
//!
//! A [`Prompt`] is a question as a client sees it; a [`Question`] is a prompt with the type of its
//! answer. Answers are validated by one set of rules, wherever they come from. A [`Session`] is the
//! fold of the [`JournalEvent`]s in its journal; [`Replay`] feeds the same journal to a flow that
//! runs again from the top. A [`Store`] stores journals.
//!
//! Nothing here does I/O, waits, or reads a clock: time and randomness are arguments.
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
mod timeline;

pub use check::{InvalidAnswer, InvalidPrompt, is_empty, limits};
pub use event::{Ending, FaultName, FlowFault, JournalEvent};
pub use id::{BadSessionId, Owner, SessionId};
pub use jiff::civil::Date;
pub use mcp_flow_schema::is_affordable;
pub use prompt::{Prompt, PromptType};
pub use question::Question;
pub use replay::{Divergence, Replay};
pub use session::{Command, CommandError, LinkState, Session, State};
pub use store::{Epoch, MemoryStore, Store, StoreError};
pub use time::Timestamp;
pub use timeline::{TimelineEntry, timeline};
