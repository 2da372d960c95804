//! Directories whose files are resources.
//!
//! [`Roots`] opens and lists files beneath the directories it was given; `provider` offers them to
//! a server, and `watch` sees them change.

mod provider;
mod roots;
mod watch;

pub use provider::ServeFiles;
pub use roots::{RootError, Roots};
