//! Differences between operating systems: names as bytes, paths in URIs, how files are opened.
//!
//! `unix` and `windows` have the same functions and constants.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
