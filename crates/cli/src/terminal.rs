//! The terminal: questions to the person, progress bars, and output for people and programs.

pub(crate) mod ask;
pub(crate) mod output;
pub(crate) mod progress;
