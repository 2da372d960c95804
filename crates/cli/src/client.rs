//! Using servers from the command line: connection options, the person who answers questions,
//! sessions, downloads, and errors with their exit codes.

pub(crate) mod approval;
pub(crate) mod browser;
pub(crate) mod browser_login;
pub(crate) mod connect;
pub(crate) mod download;
pub(crate) mod error;
pub(crate) mod interrupt;
pub(crate) mod logins;
pub(crate) mod prompter;
mod review;
pub(crate) mod session_source;
pub(crate) mod signing;
pub(crate) mod suggestion;
pub(crate) mod target;
pub(crate) mod timeline;
pub(crate) mod tool_arguments;
pub(crate) mod user;
