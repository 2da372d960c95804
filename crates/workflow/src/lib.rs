//! Workflows: tasks in steps that keep an agent on the rails.
//!
//! A workflow is a file ([`Reading`] says what is wrong with one), a [`Library`] is all there are.
//! What comes next is decided by the pure functions of [`next`], what an output is worth by
//! [`Verdict`]; [`LookupTools`] offers both to clients, who report their own progress. A run
//! ([`runs`]) does not believe them: it is a flow on the journal that shows one step at a time.

mod bundled;
mod condition;
mod fault;
mod library;
mod lookup;
mod model;
pub mod next;
mod pattern;
mod problem;
mod read;
mod rule;
pub mod runs;
pub mod schema;
mod source;
mod template;

pub use condition::{Condition, Context, Test};
pub use fault::{INVALID_WORKFLOW, SERVER_ERROR, STEP_NOT_FOUND, WORKFLOW_NOT_FOUND};
pub use library::{
    BadDirectory, Broken, Changes, Entry, Library, Origin, Watching, check_file, files_in,
};
pub use lookup::{Form, LookupTools, PRINTED_TOOLS, SERVER_VERSION, ToolErrors, incompatible};
pub use model::{Body, Confirmation, Count, Found, Loop, LoopKind, LoopStep, Step, Task, Workflow};
pub use pattern::Pattern;
pub use problem::{Position, Problem, Severity, nearest};
pub use read::{Reading, is_identifier};
pub use rule::{Criteria, Demand, Rule, Verdict};
pub use source::Format;
pub use template::fill;
