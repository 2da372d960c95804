//! Differences between operating systems: standard streams, signals, Unix sockets, process groups.
//!
//! `unix` and `windows` have the same functions and types.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
