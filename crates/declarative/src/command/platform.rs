//! Differences between operating systems: programs, their processes, and how they end.
//!
//! `unix` and `windows` have the same functions and types.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::*;
#[cfg(windows)]
pub(super) use windows::*;
