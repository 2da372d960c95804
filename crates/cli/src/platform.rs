//! Differences between operating systems: signals, permissions of files, limits, names.
//!
//! `unix` and `windows` have the same functions and types. The keyboard, which differs as well, is in
//! [`terminal::ask`](crate::terminal::ask).

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
