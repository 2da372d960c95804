//! Files of directories as resources.
//!
//! [`Roots`] opens and lists files beneath its directories; `provider` offers them to a server, and
//! `watch` reports their changes. `platform` has what differs between systems.

mod platform;
mod provider;
mod roots;
mod watch;

pub use provider::ServeFiles;
pub use roots::{RootError, Roots};
