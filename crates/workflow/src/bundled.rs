//! The workflows that come with the program.

use crate::source::Format;

macro_rules! bundled {
    ($name:literal) => {
        (concat!($name, ".yaml"), include_str!(concat!("../bundled/", $name, ".yaml")))
    };
}

/// The name and the text of each file.
pub(crate) const FILES: [(&str, &str); 6] = [
    bundled!("ai-task-implementation"),
    bundled!("bug-investigation"),
    bundled!("code-review"),
    bundled!("documentation"),
    bundled!("refactoring-with-safety-net"),
    bundled!("test-writing"),
];

/// How they are written.
pub(crate) const FORMAT: Format = Format::Yaml;
