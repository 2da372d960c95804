//! Parsing of files into values, and positions of values in the text.
//!
//! Most files have no problems, so positions are computed only when there are some.

mod json;
mod positions;
mod yaml;

use std::path::Path;

use serde_json::Value;

use crate::problem::Problem;
pub(crate) use positions::{WantedPositions, push_part};

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2.
    Yaml,
}

impl Format {
    /// Determines the format from a file name; `None` if it is neither.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        match path.extension()?.to_str()? {
            // A copy of the published schema, kept for an editor.
            "json" if name.ends_with(".schema.json") => None,
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }

    /// Parses a text into a value. Aliases, depth and the number of values are bounded.
    pub fn parse(self, text: &str) -> Result<Value, Problem> {
        self.parse_up_to(text, MAX_VALUES)
    }

    /// Parses a text into a value of at most this many values, each member and item counted.
    pub fn parse_up_to(self, text: &str, values: usize) -> Result<Value, Problem> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json => json::parse(text, values),
            Self::Yaml => yaml::parse(text, values),
        }
    }

    /// Finds the positions of values in a text.
    pub(crate) fn locate(self, text: &str, positions: &mut WantedPositions) {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        match self {
            Self::Json => json::locate(text, positions),
            Self::Yaml => yaml::locate(text, positions),
        }
    }
}

/// Limit on the values in a file, each member and item counted.
///
/// A value takes far more memory than the two characters it can be written with.
const MAX_VALUES: usize = 50_000;

fn too_many_values(most: usize) -> String {
    format!("the file holds more than {most} values; split it")
}

#[cfg(test)]
mod tests {
    use super::{Format, WantedPositions};
    use crate::problem::Position;
    use serde_json::{Value, json};
    use std::path::Path;

    #[test]
    fn both_formats_parse_to_the_same_value() {
        let value = json!({
            "id": "a", "n": [1, -2, 2.5, true, false, null, "5", "true", "→ é\n2"], "o": {"k": []},
        });
        let yaml = "id: a\nn:\n  - 1\n  - -2\n  - 2.5\n  - true\n  - False\n  - ~\n  - \"5\"\n  \
                    - 'true'\n  - |-\n    → é\n    2\no:\n  k: []\n";
        check(Format::Json, &value.to_string(), &value);
        check(Format::Yaml, yaml, &value);
        // JSON is YAML.
        check(Format::Yaml, &value.to_string(), &value);
        check(Format::Yaml, "a: &x [1]\nb: *x\n", &json!({"a": [1], "b": [1]}));
    }

    #[test]
    fn positions_are_found_in_both_formats() {
        let json = "{\n\t\"id\": \"a\",\n\t\"steps\": [\n\t\t{\"a~/\\\"\": 7}, 5\n\t]\n}";
        let yaml = "id: a\nsteps:\n  - \"a~/\\\"\": 7\n  - 5\n";
        for (format, text, positions) in [
            (Format::Json, json, [(2, 2, 2, 8), (4, 4, 4, 13), (4, 17, 4, 17)]),
            (Format::Yaml, yaml, [(1, 1, 1, 5), (3, 5, 3, 14), (4, 5, 4, 5)]),
        ] {
            let pointers = ["/id", "/steps/0/a~0~1\"", "/steps/1"];
            let mut found = WantedPositions::wanted(pointers);
            format.locate(text, &mut found);
            for (pointer, (line, column, value_line, value_column)) in
                pointers.into_iter().zip(positions)
            {
                assert_eq!(found.name(pointer), Position { line, column }, "{pointer} in {text}");
                let value = Position { line: value_line, column: value_column };
                assert_eq!(found.value(pointer), value, "{pointer} in {text}");
            }
        }
    }

    #[test]
    fn syntax_errors_have_a_position() {
        for (format, text, line, expected) in [
            (Format::Json, "{\n\"a\": }", 2, "expected value"),
            (Format::Json, "{\"a\": 1,\n \"a\": 2}", 2, "`a` is duplicated"),
            (Format::Json, "", 1, "EOF"),
            (Format::Yaml, "a: 1\nb: [\n", 3, ""),
            (Format::Yaml, "a: 1\na: 2\n", 2, "`a` is duplicated"),
            (Format::Yaml, "a: 1\n---\nb: 2\n", 2, "one document"),
            (Format::Yaml, "a: *x\n", 1, ""),
            (Format::Yaml, "a: &x [*x]\n", 1, "itself"),
            (Format::Yaml, "[a]: 1\n", 1, "must be a string"),
            (Format::Yaml, "a: !secret x\n", 1, "tag"),
            (Format::Yaml, "", 1, "empty"),
        ] {
            let problem = format.parse(text).unwrap_err();
            assert_eq!(problem.position.line, line, "{text:?}: {problem}");
            assert!(problem.message.contains(expected), "{text:?}: {problem}");
        }
    }

    /// A short file cannot expand to gigabytes, and a deep one cannot overflow the stack.
    #[test]
    fn expansion_bombs_are_rejected() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
        }
        let problem = Format::Yaml.parse(&bomb).unwrap_err();
        assert!(problem.message.contains("aliases"), "{problem}");
        for format in [Format::Json, Format::Yaml] {
            let deep = "[".repeat(100_000);
            assert!(format.parse(&deep).is_err());
            let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
            assert!(format.parse(&deep).is_err());
        }
    }

    #[test]
    fn formats_are_determined_by_file_name() {
        for (name, format) in [
            ("a.json", Some(Format::Json)),
            ("a.yaml", Some(Format::Yaml)),
            ("a.yml", Some(Format::Yaml)),
            ("workflow.schema.json", None),
            ("a.txt", None),
            ("json", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }

    fn check(format: Format, text: &str, expected: &Value) {
        assert_eq!(format.parse(text).unwrap(), *expected, "{text}");
    }
}
