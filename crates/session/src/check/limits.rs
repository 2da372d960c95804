//! Limits of answers and questions beyond their own rules.

/// Characters of a text.
pub const TEXT: usize = 64 * 1024;
/// Bytes of an inline file.
pub const FILE: u64 = 1024 * 1024;
/// Values in a custom answer: scalars, objects and arrays.
pub const VALUES: usize = 10_000;
/// Nesting depth of a custom answer.
pub const DEPTH: usize = 32;
/// Characters of all strings in a custom answer.
pub const CUSTOM: usize = 256 * 1024;
/// Characters of a prompt's message.
pub const MESSAGE: usize = 16 * 1024;
/// Options of a choice.
pub const CHOICES: usize = 1000;
/// Bytes of a compiled pattern.
pub const PATTERN: usize = 1024 * 1024;
