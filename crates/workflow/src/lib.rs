//! Workflow files, the tools that guide an agent through them, and enforced workflow runs.
//!
//! [`Reading`] parses and checks a workflow file; a [`Library`] holds all files. [`next`] decides,
//! with pure functions, which step follows; [`Validation`] checks the output of a step.
//! [`LookupTools`] offers both to clients that track their own progress. [`runs`] tracks progress
//! on the server instead: a workflow run is a session whose flow shows one step at a time.

mod bundled;
mod condition;
pub mod document;
mod folder;
mod library;
mod lookup;
mod model;
pub mod next;
mod pattern;
mod problem;
mod protocol_errors;
mod read;
mod rule;
pub mod runs;
pub mod schema;
mod source;
mod template;

pub use condition::{Comparison, Condition, WorkflowContext, find};
pub use library::{
    BrokenFile, Library, LibraryChanges, LibraryEntry, LibraryWatcher, Origin, UnreadableDirectory,
    check_file, files_in,
};
pub use lookup::{
    DefinitionForm, LookupTools, PRINTED_TOOLS, SERVER_VERSION, ToolErrors, incompatible,
};
pub use model::{
    Confirmation, Loop, LoopBody, LoopCount, LoopKind, LoopStep, Step, StepRef, Task, Workflow,
};
pub use pattern::Pattern;
pub use problem::{Position, Problem, Severity, nearest};
pub use protocol_errors::{INVALID_WORKFLOW, SERVER_ERROR, STEP_NOT_FOUND, WORKFLOW_NOT_FOUND};
pub use read::{Reading, is_identifier};
pub use rule::{Criteria, Requirement, Validation, ValidationRule};
pub use source::Format;
pub use template::fill;
