//! Conditions on the context of a workflow.
//!
//! `{var, equals | not_equals | gt | gte | lt | lte | in | contains | startsWith | endsWith |
//! matches}`, and `and`, `or`, `not` of conditions. `var` alone comparisons for truth. Agents write
//! context loosely, so values are compared [loosely](loose_equality).

pub(crate) mod loose_equality;
mod requirement;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};

use crate::pattern::Pattern;

/// Context of a workflow: variables given by the agent.
pub type WorkflowContext = Map<String, Value>;

/// A predicate over the context.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// A variable passes all of these comparisons; without any, it is true.
    Variable {
        /// Name of the variable; `a.b` is a member of one.
        name: Box<str>,
        /// Comparisons it must pass.
        comparisons: Vec<Comparison>,
    },
    /// All of these hold.
    And(Vec<Condition>),
    /// One of these holds.
    Or(Vec<Condition>),
    /// This does not hold.
    Not(Box<Condition>),
}

/// Comparison of a variable with a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// Equal.
    Equals(Value),
    /// Not equal.
    NotEquals(Value),
    /// A greater number.
    Gt(Number),
    /// A greater or equal number.
    Gte(Number),
    /// A smaller number.
    Lt(Number),
    /// A smaller or equal number.
    Lte(Number),
    /// Equal to one of these.
    In(Vec<Value>),
    /// A text with this part, or a list with this item.
    Contains(Value),
    /// A text with this prefix.
    StartsWith(Box<str>),
    /// A text with this suffix.
    EndsWith(Box<str>),
    /// A text that matches this pattern.
    Matches(Pattern),
}

impl Condition {
    /// Evaluates the condition. A variable missing from the context is null.
    pub fn holds(&self, context: &WorkflowContext) -> bool {
        match self {
            Self::Variable { name, comparisons } if comparisons.is_empty() => {
                loose_equality::is_true(lookup(context, name))
            }
            Self::Variable { name, comparisons } => {
                let value = lookup(context, name);
                comparisons.iter().all(|test| test.passes(value))
            }
            Self::And(all) => all.iter().all(|condition| condition.holds(context)),
            Self::Or(any) => any.iter().any(|condition| condition.holds(context)),
            Self::Not(condition) => !condition.holds(context),
        }
    }

    /// Returns whether adding variables to the context cannot change the result.
    ///
    /// Variables in the context are settled, and so are the `fixed` ones, even if they are missing.
    pub fn is_decided(&self, context: &WorkflowContext, fixed: &[&str]) -> bool {
        self.decide(context, fixed).is_some()
    }

    /// Evaluates the condition if it is decided. Each part is visited once.
    fn decide(&self, context: &WorkflowContext, fixed: &[&str]) -> Option<bool> {
        // One part can decide alone; otherwise all must be decided.
        let settled = |parts: &[Self], by: bool| {
            let mut all = Some(!by);
            for part in parts {
                match part.decide(context, fixed) {
                    Some(holds) if holds == by => return Some(by),
                    Some(_) => {}
                    None => all = None,
                }
            }
            all
        };
        match self {
            Self::Variable { name, .. } => {
                let is_known =
                    find(context, name).is_some() || fixed.iter().any(|fixed| covers(fixed, name));
                is_known.then(|| self.holds(context))
            }
            Self::And(parts) => settled(parts, false),
            Self::Or(parts) => settled(parts, true),
            Self::Not(condition) => condition.decide(context, fixed).map(|holds| !holds),
        }
    }

    /// Returns the names of the variables it refers to.
    pub fn variables(&self) -> Vec<&str> {
        match self {
            Self::Variable { name, .. } => vec![name],
            Self::And(parts) | Self::Or(parts) => parts.iter().flat_map(Self::variables).collect(),
            Self::Not(condition) => condition.variables(),
        }
    }

    /// Returns whether it refers to one of these variables.
    pub(crate) fn asks_about(&self, names: &[&str]) -> bool {
        match self {
            Self::Variable { name, .. } => names.iter().any(|one| covers(one, name)),
            Self::And(parts) | Self::Or(parts) => parts.iter().any(|one| one.asks_about(names)),
            Self::Not(condition) => condition.asks_about(names),
        }
    }
}

impl Comparison {
    fn passes(&self, value: &Value) -> bool {
        let compared = |bound: &Number, good: fn(f64, f64) -> bool| {
            let (value, bound) = (value.as_f64(), bound.as_f64());
            value.zip(bound).is_some_and(|(value, bound)| good(value, bound))
        };
        match self {
            Self::Equals(other) => loose_equality::same(value, other),
            Self::NotEquals(other) => !loose_equality::same(value, other),
            Self::Gt(bound) => compared(bound, |value, bound| value > bound),
            Self::Gte(bound) => compared(bound, |value, bound| value >= bound),
            Self::Lt(bound) => compared(bound, |value, bound| value < bound),
            Self::Lte(bound) => compared(bound, |value, bound| value <= bound),
            Self::In(options) => options.iter().any(|option| loose_equality::same(value, option)),
            Self::Contains(part) => match value {
                Value::String(text) => loose_equality::contains(text, part),
                Value::Array(items) => items.iter().any(|item| loose_equality::same(item, part)),
                _ => false,
            },
            Self::StartsWith(start) => value.as_str().is_some_and(|text| {
                loose_equality::plain(text).starts_with(&loose_equality::plain(start))
            }),
            Self::EndsWith(end) => value.as_str().is_some_and(|text| {
                loose_equality::plain(text).ends_with(&loose_equality::plain(end))
            }),
            Self::Matches(pattern) => value.as_str().is_some_and(|text| pattern.is_match(text)),
        }
    }

    /// Member name of the comparison.
    fn name(&self) -> &'static str {
        match self {
            Self::Equals(_) => "equals",
            Self::NotEquals(_) => "not_equals",
            Self::Gt(_) => "gt",
            Self::Gte(_) => "gte",
            Self::Lt(_) => "lt",
            Self::Lte(_) => "lte",
            Self::In(_) => "in",
            Self::Contains(_) => "contains",
            Self::StartsWith(_) => "startsWith",
            Self::EndsWith(_) => "endsWith",
            Self::Matches(_) => "matches",
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Equals(value) | Self::NotEquals(value) | Self::Contains(value) => value.clone(),
            Self::Gt(number) | Self::Gte(number) | Self::Lt(number) | Self::Lte(number) => {
                Value::Number(number.clone())
            }
            Self::In(options) => Value::Array(options.clone()),
            Self::StartsWith(text) | Self::EndsWith(text) => (&**text).into(),
            Self::Matches(pattern) => pattern.source().into(),
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Variable { name, comparisons } => {
                map.serialize_entry("var", name)?;
                for test in comparisons {
                    map.serialize_entry(test.name(), &test.value())?;
                }
            }
            Self::And(all) => map.serialize_entry("and", all)?,
            Self::Or(any) => map.serialize_entry("or", any)?,
            Self::Not(condition) => map.serialize_entry("not", condition)?,
        }
        map.end()
    }
}

/// Looks up a variable by name, or a member of one by a dotted path; null if there is none.
pub(crate) fn lookup<'a>(context: &'a WorkflowContext, path: &str) -> &'a Value {
    const NOTHING: &Value = &Value::Null;
    find(context, path).unwrap_or(NOTHING)
}

/// Returns whether a path refers to a variable or a member of it.
pub(crate) fn covers(name: &str, path: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Looks up a variable by name, or a member of one by a dotted path.
pub fn find<'a>(context: &'a WorkflowContext, path: &str) -> Option<&'a Value> {
    if let Some(value) = context.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let first = context.get(parts.next()?)?;
    parts.try_fold(first, |value, part| match value {
        Value::Object(members) => members.get(part),
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use crate::read::condition_of;
    use serde_json::{Value, json};

    /// WFL-034: every form of condition, with contexts that match, differ and are empty.
    #[test]
    fn conditions_are_evaluated_against_the_context() {
        for (condition, right, wrong) in [
            (json!({"var": "x"}), json!(1), json!(0)),
            (json!({"var": "x"}), json!("a"), json!("")),
            (json!({"var": "x"}), json!("yes"), json!("no")),
            (json!({"var": "x"}), json!([]), json!(null)),
            (json!({"var": "x", "equals": "Large"}), json!(" large "), json!("small")),
            (json!({"var": "x", "equals": 5}), json!("5"), json!("five")),
            (json!({"var": "x", "equals": 5}), json!(5.0), json!(5.1)),
            (json!({"var": "x", "equals": true}), json!("Yes"), json!("maybe")),
            (json!({"var": "x", "equals": false}), json!("no"), json!(true)),
            (json!({"var": "x", "equals": [1, "a"]}), json!([1, "a"]), json!([1])),
            (json!({"var": "x", "not_equals": "a"}), json!("b"), json!("A")),
            (json!({"var": "x", "gt": 3}), json!(4), json!(3)),
            (json!({"var": "x", "gte": 3}), json!(3), json!(2.9)),
            (json!({"var": "x", "gte": 3}), json!(3), json!("4")),
            (json!({"var": "x", "lt": 3}), json!(-1), json!(3)),
            (json!({"var": "x", "lte": 3}), json!(3), json!(null)),
            (json!({"var": "x", "gte": 1, "lt": 3}), json!(2), json!(3)),
            (json!({"var": "x", "in": ["a", 2]}), json!("2"), json!("c")),
            (json!({"var": "x", "contains": "Bug"}), json!("a bug"), json!("a feature")),
            (json!({"var": "x", "contains": 2}), json!([1, 2]), json!([1])),
            (json!({"var": "x", "startsWith": "fix"}), json!("Fix: a"), json!("a fix")),
            (json!({"var": "x", "endsWith": ".rs"}), json!("a.rs "), json!("a.rs.bak")),
            (json!({"var": "x", "matches": "^v[0-9]+$"}), json!("v12"), json!("v")),
            (json!({"var": "x.y.0", "equals": 7}), json!({"y": [7]}), json!({"y": 7})),
            (json!({"and": [{"var": "x"}, {"var": "x", "gt": 1}]}), json!(2), json!(1)),
            (json!({"or": [{"var": "x", "lt": 0}, {"var": "x", "gt": 1}]}), json!(2), json!(1)),
            (json!({"not": {"var": "x"}}), json!(false), json!(true)),
        ] {
            let parsed = condition_of(&condition).unwrap();
            let holds = |x: Value| parsed.holds(json!({"x": x}).as_object().unwrap());
            assert!(holds(right.clone()), "{condition} should hold for {right}");
            assert!(!holds(wrong.clone()), "{condition} should not hold for {wrong}");
            assert_eq!(serde_json::to_value(&parsed).unwrap(), condition);
        }
    }

    #[test]
    fn missing_variables_are_null_and_undecided() {
        let context = json!({"a": 1});
        let context = context.as_object().unwrap();
        for (condition, holds, decided) in [
            (json!({"var": "x"}), false, false),
            (json!({"var": "x", "equals": null}), true, false),
            (json!({"var": "x", "not_equals": 1}), true, false),
            (json!({"not": {"var": "x"}}), true, false),
            (json!({"var": "a", "equals": 2}), false, true),
            (json!({"and": [{"var": "a", "equals": 2}, {"var": "x"}]}), false, true),
            (json!({"and": [{"var": "a"}, {"var": "x"}]}), false, false),
            (json!({"or": [{"var": "a", "equals": 2}, {"var": "x"}]}), false, false),
            (json!({"or": [{"var": "a"}, {"var": "x"}]}), true, true),
            (json!({"or": [{"not": {"var": "x"}}, {"var": "y"}]}), true, false),
            (json!({"var": "fixed.z"}), false, true),
            (json!({"var": "givens"}), false, false),
            (json!({"and": []}), true, true),
            (json!({"or": []}), false, true),
        ] {
            let parsed = condition_of(&condition).unwrap();
            assert_eq!(
                (parsed.holds(context), parsed.is_decided(context, &["fixed"])),
                (holds, decided),
                "{condition}"
            );
        }
    }
}
