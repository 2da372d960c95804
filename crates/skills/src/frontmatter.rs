//! The YAML frontmatter of a `SKILL.md`.

use mcp_flow_workflow::Format;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields of a frontmatter as JSON, every one the author wrote.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frontmatter(Map<String, Value>);

impl Frontmatter {
    /// Parses the frontmatter that a `SKILL.md` begins with, and checks it.
    ///
    /// ```
    /// use mcp_flow_skills::Frontmatter;
    ///
    /// let text = "---\nname: refunds\ndescription: Handles refunds\n---\nDo this.\n";
    /// assert_eq!(Frontmatter::parse(text).unwrap().name(), "refunds");
    /// ```
    pub fn parse(text: &str) -> Result<Self, BadFrontmatter> {
        let yaml = split(text).ok_or(BadFrontmatter::Missing)?;
        if yaml.len() > MAX_LENGTH {
            return Err(BadFrontmatter::TooLong);
        }
        let value = Format::Yaml
            .parse(yaml)
            .map_err(|problem| BadFrontmatter::NotYaml(problem.to_string()))?;
        let Value::Object(fields) = value else { return Err(BadFrontmatter::NoFields) };
        let frontmatter = Self(fields);
        frontmatter.check()?;
        Ok(frontmatter)
    }

    /// Returns the name of the skill.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// Returns the description of the skill.
    pub fn description(&self) -> &str {
        self.text("description")
    }

    /// Returns all fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the name of the first field in which two frontmatters differ.
    pub fn difference<'a>(&'a self, other: &'a Self) -> Option<&'a str> {
        let names = self.0.keys().chain(other.0.keys());
        let differs = |name: &&String| match (self.0.get(*name), other.0.get(*name)) {
            (Some(one), Some(other)) => !is_same(one, other),
            _ => true,
        };
        names.into_iter().find(differs).map(String::as_str)
    }

    /// Checks the fields that every skill has, by the rules of Agent Skills.
    pub(crate) fn check(&self) -> Result<(), BadFrontmatter> {
        if !is_name(self.name()) {
            return Err(BadFrontmatter::Name);
        }
        let length = self.description().chars().count();
        if self.description().trim().is_empty() || length > MAX_DESCRIPTION_LENGTH {
            return Err(BadFrontmatter::Description);
        }
        Ok(())
    }

    fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Returns whether a text can be the name of a skill.
pub(crate) fn is_name(text: &str) -> bool {
    let is_character = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=64).contains(&text.len())
        && text.bytes().all(is_character)
        && !(text.starts_with('-') || text.ends_with('-') || text.contains("--"))
}

/// Returns the text between the line `---` at the beginning and the next one.
fn split(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let rest = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n"))?;
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&rest[..end]);
        }
        end += line.len();
    }
    None
}

/// Compares values; parsers differ in whether 1.0 is 1.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || one.as_f64().is_some() && one.as_f64() == other.as_f64()
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let is_there = |(name, value)| other.get(name).is_some_and(|it| is_same(value, it));
            one.len() == other.len() && one.iter().all(is_there)
        }
        _ => one == other,
    }
}

/// A fault of a frontmatter, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFrontmatter {
    /// There is none.
    #[error(
        "it does not begin with frontmatter; begin it with a line `---`, fields, and a line `---`"
    )]
    Missing,
    /// The frontmatter exceeds the length limit.
    #[error("its frontmatter is longer than {MAX_LENGTH} bytes; move text into the body")]
    TooLong,
    /// It is not YAML.
    #[error("its frontmatter is not valid YAML, or cannot be represented as JSON: {0}")]
    NotYaml(String),
    /// It is YAML of another kind.
    #[error("its frontmatter is not a list of fields; write `name: …` and `description: …`")]
    NoFields,
    /// The name breaks the rules.
    #[error(
        "its `name` is not 1 to 64 lowercase letters, digits and single hyphens; rename the skill \
         and its directory"
    )]
    Name,
    /// The description is missing or too long.
    #[error(
        "its `description` is not a text of 1 to {MAX_DESCRIPTION_LENGTH} characters; write one"
    )]
    Description,
}

/// Bytes of a frontmatter that are parsed at most.
const MAX_LENGTH: usize = 64 * 1024;

/// Characters of a description at most, by Agent Skills.
const MAX_DESCRIPTION_LENGTH: usize = 1024;

#[cfg(test)]
mod tests {
    use super::{Frontmatter, is_name};
    use serde_json::json;

    #[test]
    fn every_field_is_kept() {
        for text in [
            "---\nname: a\ndescription: b\nmetadata: {version: \"1.0\", n: 2}\nx: [true, ~]\n---\n# A",
            "\u{feff}---\r\nname: a\r\ndescription: b\r\nmetadata:\r\n  version: '1.0'\r\n  n: 2\r\nx:\r\n- true\r\n- null\r\n---  \r\n",
            "---\nname: a\ndescription: b\nmetadata: {version: \"1.0\", n: 2}\nx: [true, null]\n---",
        ] {
            let frontmatter = Frontmatter::parse(text).unwrap();
            let expected = json!({
                "name": "a", "description": "b", "metadata": {"version": "1.0", "n": 2},
                "x": [true, null],
            });
            assert_eq!(serde_json::to_value(&frontmatter).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn bad_frontmatter_is_explained() {
        let long = format!("---\nname: a\ndescription: {}\n---\n", "x".repeat(1025));
        let huge = format!("---\nname: a\ndescription: b\nx: {}\n---\n", "x".repeat(65 * 1024));
        for (text, told) in [
            ("", "begin"),
            ("# A\n", "begin"),
            ("---\nname: a\n", "begin"),
            (" ---\nname: a\n---\n", "begin"),
            ("---\n- a\n---\n", "fields"),
            ("---\nname: [\n---\n", "line"),
            ("---\nname: a\nname: b\n---\n", "line 2"),
            ("---\na: &a [*a]\n---\n", "line 1"),
            ("---\nname: !x a\n---\n", "line 1"),
            ("---\ndescription: b\n---\n", "name"),
            ("---\nname: A b\ndescription: b\n---\n", "lowercase"),
            ("---\nname: 7\ndescription: b\n---\n", "name"),
            ("---\nname: a\n---\n", "description"),
            ("---\nname: a\ndescription: '  '\n---\n", "description"),
            (&long, "1024"),
            (&huge, "longer"),
        ] {
            let error = Frontmatter::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text:.60}: {error}");
        }
    }

    #[test]
    fn names_follow_the_rules_of_agent_skills() {
        let long = "a".repeat(64);
        for good in ["a", "7", "pdf-processing", "a-1-b", &long] {
            assert!(is_name(good), "{good}");
        }
        for bad in
            ["", "-a", "a-", "a--b", "A", "a_b", "a b", "ä", "a/b", "..", &format!("{long}a")]
        {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn frontmatters_are_compared_field_by_field() {
        let parse = |more: &str| {
            Frontmatter::parse(&format!("---\nname: a\ndescription: b\n{more}---\n")).unwrap()
        };
        for (one, other, difference) in [
            ("", "", None),
            ("x: 1\n", "x: 1.0\n", None),
            ("x: {a: 1, b: 2}\ny: 3\n", "y: 3\nx: {b: 2, a: 1}\n", None),
            ("x: 1\n", "", Some("x")),
            ("", "x: 1\n", Some("x")),
            ("x: 1\n", "x: '1'\n", Some("x")),
            ("x: [1, 2]\n", "x: [2, 1]\n", Some("x")),
            ("x: ~\n", "", Some("x")),
            ("x: {a: 1}\n", "x: {a: 1, b: 2}\n", Some("x")),
        ] {
            assert_eq!(parse(one).difference(&parse(other)), difference, "{one:?} {other:?}");
        }
    }
}
