//! Workflows bundled with the program.

use crate::source::Format;

macro_rules! bundled {
    ($name:literal) => {
        (concat!($name, ".yaml"), include_str!(concat!("../bundled/", $name, ".yaml")))
    };
}

/// File name and text of each.
pub(crate) const FILES: [(&str, &str); 6] = [
    bundled!("ai-task-implementation"),
    bundled!("bug-investigation"),
    bundled!("code-review"),
    bundled!("documentation"),
    bundled!("refactoring-with-safety-net"),
    bundled!("test-writing"),
];

/// Their format.
pub(crate) const FORMAT: Format = Format::Yaml;

#[cfg(test)]
mod tests {
    use super::{FILES, FORMAT};
    use crate::read::Reading;

    /// The program trusts its bundled workflows, so their patterns are compiled here.
    #[test]
    fn bundled_workflows_have_no_problems() {
        for (name, text) in FILES {
            let reading = Reading::of(text, FORMAT, "general");
            assert_eq!(reading.problems, [], "{name}");
            assert_eq!(reading.workflow, Reading::bundled(text, FORMAT).workflow, "{name}");
        }
    }
}
