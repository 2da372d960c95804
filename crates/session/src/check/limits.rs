//! How large answers and questions may be where their own rules do not say.

/// The most characters of a text.
pub const TEXT: usize = 64 * 1024;
/// The most bytes of a file that is carried in its answer.
pub const FILE: u64 = 1024 * 1024;
/// The most values in a custom answer, counting members, elements and what holds them.
pub const VALUES: usize = 10_000;
/// How deep a custom answer may be nested.
pub const DEPTH: usize = 32;
/// The most characters of a custom answer, all texts taken together.
pub const CUSTOM: usize = 256 * 1024;
/// The most characters of a prompt's message.
pub const MESSAGE: usize = 16 * 1024;
/// The most choices a prompt may list.
pub const CHOICES: usize = 1000;
/// The most bytes a compiled pattern may take.
pub const PATTERN: usize = 1024 * 1024;
