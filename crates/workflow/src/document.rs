//! Files that people write: YAML and JSON with problems at positions, in directories that are
//! watched. Workflow files and tool files are read with it.

pub use crate::folder::{ChangedFiles, FolderWatcher, FoundFile, find_file, find_files, read_each};
pub use crate::problem::{Position, Problem, Severity, nearest, short};
pub use crate::read::{Fields, Problems, ValuePath, read_condition, shown};
pub use crate::source::Format;
