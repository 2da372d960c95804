//! Descriptions of what makes a condition hold.

use serde_json::Value;

use super::{Comparison, Condition, WorkflowContext};

impl Condition {
    /// Describes what to add to the context for the condition to hold; empty if it does.
    pub fn requirement(&self, context: &WorkflowContext) -> String {
        if self.holds(context) { String::new() } else { self.words(true, context) }
    }

    /// Describes the condition, or its negation, as an instruction.
    pub(crate) fn words(&self, positive: bool, context: &WorkflowContext) -> String {
        match self {
            Self::Variable { name, comparisons } if comparisons.is_empty() => {
                format!("set `{name}` to {positive}")
            }
            Self::Variable { name, comparisons } => {
                let wanted: Vec<_> = comparisons.iter().map(|test| test.words(positive)).collect();
                format!("set `{name}` to {}", wanted.join(if positive { " and " } else { " or " }))
            }
            Self::Not(condition) => condition.words(!positive, context),
            Self::And(parts) | Self::Or(parts) => {
                let all = matches!(self, Self::And(_)) == positive;
                let unmet = parts.iter().filter(|part| !all || part.holds(context) != positive);
                let words: Vec<_> = unmet.map(|part| part.words(positive, context)).collect();
                match words.len() {
                    0 => "nothing can be set for it".to_owned(),
                    1 => words.concat(),
                    _ if all => words.join(" and "),
                    _ => format!("either {}", words.join(" or ")),
                }
            }
        }
    }
}

impl Comparison {
    fn words(&self, positive: bool) -> String {
        let (words, contrary) = match self {
            Self::Equals(value) => (value.to_string(), "something other than "),
            Self::NotEquals(value) if positive => return format!("something other than {value}"),
            Self::NotEquals(value) => return value.to_string(),
            Self::Gt(bound) if positive => return format!("a number above {bound}"),
            Self::Gt(bound) | Self::Lte(bound) if positive == matches!(self, Self::Lte(_)) => {
                return format!("a number up to {bound}");
            }
            Self::Gte(bound) if positive => return format!("a number from {bound}"),
            Self::Lt(bound) if positive => return format!("a number below {bound}"),
            Self::Gte(bound) => return format!("a number below {bound}"),
            Self::Lt(bound) => return format!("a number from {bound}"),
            Self::Gt(bound) | Self::Lte(bound) => return format!("a number above {bound}"),
            Self::In(options) => (one_of(options), "something other than "),
            Self::Contains(part) => (format!("something that contains {part}"), "not "),
            Self::StartsWith(start) => (format!("a text that begins with {start:?}"), "not "),
            Self::EndsWith(end) => (format!("a text that ends with {end:?}"), "not "),
            Self::Matches(pattern) => (format!("a text that matches {}", pattern.source()), "not "),
        };
        if positive { words } else { format!("{contrary}{words}") }
    }
}

fn one_of(options: &[Value]) -> String {
    let options: Vec<_> = options.iter().map(ToString::to_string).collect();
    format!("one of {}", options.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::read::condition_of;
    use serde_json::json;

    #[test]
    fn descriptions_name_the_variable_and_its_value() {
        let context = json!({"a": 1});
        for (condition, wanted) in [
            (json!({"var": "a"}), ""),
            (json!({"var": "x"}), "set `x` to true"),
            (json!({"not": {"var": "a"}}), "set `a` to false"),
            (json!({"var": "x", "equals": "large"}), "set `x` to \"large\""),
            (json!({"not": {"var": "a", "equals": 1}}), "set `a` to something other than 1"),
            (json!({"var": "x", "in": [1, "b"]}), "set `x` to one of 1, \"b\""),
            (
                json!({"var": "x", "gte": 1, "lt": 5}),
                "set `x` to a number from 1 and a number below 5",
            ),
            (json!({"var": "a", "gt": 3}), "set `a` to a number above 3"),
            (json!({"not": {"var": "a", "lt": 3}}), "set `a` to a number from 3"),
            (json!({"not": {"var": "a", "lte": 3}}), "set `a` to a number above 3"),
            (json!({"not": {"var": "a", "gt": 0}}), "set `a` to a number up to 0"),
            (
                json!({"and": [{"var": "a"}, {"var": "x"}, {"var": "y", "startsWith": "k"}]}),
                "set `x` to true and set `y` to a text that begins with \"k\"",
            ),
            (
                json!({"or": [{"var": "x", "contains": "k"}, {"var": "y"}]}),
                "either set `x` to something that contains \"k\" or set `y` to true",
            ),
        ] {
            let parsed = condition_of(&condition).unwrap();
            assert_eq!(parsed.requirement(context.as_object().unwrap()), wanted, "{condition}");
        }
    }
}
