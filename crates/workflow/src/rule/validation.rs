//! Validation of an output against the rules of its step.

use mcp_flow_proto::decode_error::json_problem;
use mcp_flow_schema::UntrustedSchema;
use serde::Serialize;
use serde_json::Value;

use super::{Criteria, Requirement, ValidationRule};
use crate::condition::{Condition, WorkflowContext};
use crate::pattern::Pattern;

/// Outcome of validating an output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// True if every rule that applies passes.
    pub valid: bool,
    /// Failed rules.
    pub issues: Vec<String>,
    /// Corrections, one for each kind of failure.
    pub suggestions: Vec<String>,
}

impl Validation {
    /// Validates an output against the rules of its step. If no rule applies, it must not be blank.
    pub fn of(criteria: Option<&Criteria>, output: &str, context: &WorkflowContext) -> Self {
        Self::by(criteria, output, &|condition| condition.holds(context))
    }

    /// Validates an output; `applies` decides which conditional rules apply.
    pub(crate) fn by(criteria: Option<&Criteria>, output: &str, applies: Applies<'_>) -> Self {
        let rules = criteria.map(Criteria::rules).unwrap_or_default();
        let mut outcomes: Vec<_> =
            rules.iter().filter_map(|rule| rule.check(output, applies)).collect();
        if outcomes.is_empty() && output.trim().is_empty() {
            outcomes.push(Err(Failure {
                issue: "The output is empty.".to_owned(),
                suggestion: "Describe what was done in this step and its result.".to_owned(),
            }));
        }
        let failures: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
        let mut validation =
            Self { valid: failures.is_empty(), issues: vec![], suggestions: vec![] };
        for Failure { issue, suggestion } in failures {
            validation.issues.push(issue);
            if !validation.suggestions.contains(&suggestion) {
                validation.suggestions.push(suggestion);
            }
        }
        validation
    }
}

/// A failed rule.
struct Failure {
    issue: String,
    suggestion: String,
}

/// Decides whether a rule with this condition applies.
type Applies<'c> = &'c dyn Fn(&Condition) -> bool;

/// Outcome of one rule; `None` if it does not apply.
type RuleOutcome = Option<Result<(), Failure>>;

impl ValidationRule {
    fn check(&self, output: &str, applies: Applies<'_>) -> RuleOutcome {
        if self.condition.as_ref().is_some_and(|condition| !applies(condition)) {
            return None;
        }
        let outcome = self.requirement.check(output, applies)?;
        Some(outcome.map_err(|failure| match &self.message {
            Some(message) => Failure { issue: message.to_string(), ..failure },
            None => failure,
        }))
    }
}

impl Requirement {
    fn check(&self, output: &str, applies: Applies<'_>) -> RuleOutcome {
        let failure = |issue: String, suggestion: String| Some(Err(Failure { issue, suggestion }));
        // Outcomes of the rules that apply; `None` if there are rules and none applies.
        let applicable = |rules: &[ValidationRule]| {
            let outcomes: Vec<_> =
                rules.iter().filter_map(|rule| rule.check(output, applies)).collect();
            (rules.is_empty() || !outcomes.is_empty()).then_some(outcomes)
        };
        match self {
            Self::Contains(part) if output.contains(&**part) => PASSED,
            Self::Contains(part) => failure(
                format!("The output does not contain {part:?}."),
                format!("Include exactly {part:?} in the output."),
            ),
            Self::Regex(pattern) if pattern.is_match(output) => PASSED,
            Self::Regex(pattern) => failure(
                format!("The output does not match {}.", slashed(pattern)),
                format!("Write the output so that {} is found in it.", slashed(pattern)),
            ),
            Self::Length { min, max } => {
                let length = output.chars().count() as u64;
                match (min, max) {
                    (Some(min), _) if length < *min => failure(
                        format!("The output has {length} characters, at least {min} are required."),
                        format!("Add at least {} characters.", min - length),
                    ),
                    (_, Some(max)) if length > *max => failure(
                        format!("The output has {length} characters, at most {max} are allowed."),
                        format!("Shorten it by at least {} characters.", length - max),
                    ),
                    _ => PASSED,
                }
            }
            Self::Schema(schema) => match check_schema(schema, output) {
                Some(failure) => Some(Err(failure)),
                None => PASSED,
            },
            Self::And(rules) => {
                let failures: Vec<_> =
                    applicable(rules)?.into_iter().filter_map(Result::err).collect();
                if failures.is_empty() { PASSED } else { Some(Err(joined(failures, " "))) }
            }
            Self::Or(rules) => {
                let outcomes: Result<Vec<_>, ()> =
                    applicable(rules)?.into_iter().map(|one| one.err().ok_or(())).collect();
                match outcomes {
                    Ok(failures) => Some(Err(joined(failures, " Or: "))),
                    Err(()) => PASSED,
                }
            }
            Self::Not(rule) => match rule.check(output, applies)? {
                Err(_) => PASSED,
                Ok(()) => failure(
                    format!("The output must not {}.", rule.requirement.describe()),
                    format!(
                        "Change the output so that it does not {}.",
                        rule.requirement.describe()
                    ),
                ),
            },
        }
    }

    /// Describes what an output that passes does.
    fn describe(&self) -> String {
        match self {
            Self::Contains(part) => format!("contain {part:?}"),
            Self::Regex(pattern) => format!("match {}", slashed(pattern)),
            Self::Length { min: Some(min), max: Some(max) } => {
                format!("have {min} to {max} characters")
            }
            Self::Length { min: Some(min), .. } => format!("have {min} characters or more"),
            Self::Length { max: Some(max), .. } => format!("have {max} characters or less"),
            Self::Length { .. } => "have any length".to_owned(),
            Self::Schema(_) => "be valid by the schema".to_owned(),
            Self::And(rules) => describe_all(rules, " and "),
            Self::Or(rules) => describe_all(rules, " or "),
            Self::Not(rule) => format!("fail to {}", rule.requirement.describe()),
        }
    }
}

fn describe_all(rules: &[ValidationRule], between: &str) -> String {
    rules.iter().map(|rule| rule.requirement.describe()).collect::<Vec<_>>().join(between)
}

fn joined(failures: Vec<Failure>, between: &str) -> Failure {
    let (issues, suggestions): (Vec<_>, Vec<_>) =
        failures.into_iter().map(|failure| (failure.issue, failure.suggestion)).unzip();
    let none = || "No output can pass this rule.".to_owned();
    let join = |texts: Vec<String>| if texts.is_empty() { none() } else { texts.join(between) };
    Failure { issue: join(issues), suggestion: join(suggestions) }
}

fn slashed(pattern: &Pattern) -> String {
    format!("/{}/{}", pattern.source(), pattern.flags())
}

fn check_schema(schema: &Value, output: &str) -> Option<Failure> {
    let output: Value = match serde_json::from_str(output) {
        Ok(output) => output,
        Err(error) => {
            return Some(Failure {
                issue: format!("The output is not JSON: {}.", json_problem(&error)),
                suggestion: "Write the output as one JSON text and nothing else.".to_owned(),
            });
        }
    };
    let compiled = match UntrustedSchema::compile(schema) {
        Ok(compiled) => compiled,
        // It was compiled when the file was read.
        Err(error) => return Some(Failure { issue: error, suggestion: REPAIR.to_owned() }),
    };
    let Ok(violations) = compiled.violations(&output, "the output", MAX_ERRORS) else {
        return Some(Failure {
            issue: "The output is too large or too deeply nested for the schema of this step."
                .to_owned(),
            suggestion: "Use fewer and flatter lists and objects.".to_owned(),
        });
    };
    let failures: Vec<_> = violations.into_iter().map(|violation| violation.sentence).collect();
    (!failures.is_empty()).then(|| Failure {
        issue: format!(
            "The output is invalid by the schema of this step: {}.",
            failures.join("; ")
        ),
        suggestion: format!("Write JSON that is valid by this schema: {schema}"),
    })
}

const PASSED: RuleOutcome = Some(Ok(()));

const REPAIR: &str = "Correct the schema in the workflow file.";

/// Limit on the schema violations reported at once.
const MAX_ERRORS: usize = 5;

#[cfg(test)]
mod tests {
    use super::Validation;
    use crate::read::criteria_of;
    use serde_json::{Value, json};

    /// WFL-044, WFL-042: every kind of rule accepts valid output and rejects invalid output with a
    /// suggestion.
    #[test]
    fn every_kind_of_rule_is_checked() {
        for (criteria, good, bad, expected) in [
            (json!([{"type": "contains", "value": "Plan"}]), "a Plan", "a plan", "\"Plan\""),
            (json!({"type": "regex", "pattern": "^ok"}), "ok!", "not ok", "/^ok/"),
            (json!([{"type": "regex", "pattern": "^OK$", "flags": "im"}]), "a\nok", "okay", "/im"),
            (json!([{"type": "length", "min": 3}]), "äöü", "äö", "2 characters"),
            (json!([{"type": "length", "max": 3}]), "äöü", "äöüß", "at most 3"),
            (
                json!([{"type": "schema", "schema": {"type": "object", "required": ["a"]}}]),
                "{\"a\": 1}",
                "{\"b\": 1}",
                "\"a\" is a required",
            ),
            (json!([{"type": "schema", "schema": {"type": "object"}}]), "{}", "none", "not JSON"),
            (
                json!({"and": [{"type": "contains", "value": "a"}, {"type": "length", "max": 2}]}),
                "ab",
                "abc",
                "at most 2",
            ),
            (
                json!({"or": [{"type": "contains", "value": "a"}, {"type": "length", "min": 3}]}),
                "xyz",
                "x",
                "Or:",
            ),
            (
                json!({"not": {"type": "contains", "value": "TODO"}}),
                "done",
                "TODO",
                "must not contain",
            ),
            (json!([{"type": "contains", "value": "a", "message": "Say a."}]), "a", "b", "Say a."),
            (json!({"not": {"or": []}}), "", "", ""),
        ] {
            let read = criteria_of(&criteria).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), criteria);
            let check = |output| Validation::of(Some(&read), output, &Default::default());
            assert!(check(good).valid, "{criteria} should accept {good:?}");
            if !expected.is_empty() {
                let validation = check(bad);
                assert!(
                    !validation.valid && !validation.suggestions.is_empty(),
                    "{criteria}: {bad:?}"
                );
                assert!(validation.issues[0].contains(expected), "{validation:?}");
            }
        }
    }

    #[test]
    fn every_failed_rule_is_reported() {
        let criteria = criteria_of(&json!([
            {"type": "contains", "value": "a", "message": "one"},
            {"type": "contains", "value": "b", "message": "two"},
            {"type": "contains", "value": "c", "message": "three", "condition": {"var": "strict"}},
        ]));
        let criteria = criteria.unwrap();
        let issues = |context: Value| {
            Validation::of(Some(&criteria), "x", context.as_object().unwrap()).issues
        };
        assert_eq!(issues(json!({})), ["one", "two"]);
        assert_eq!(issues(json!({"strict": true})), ["one", "two", "three"]);
    }

    /// A nested rule applies under the same condition as a top-level one.
    #[test]
    fn rules_that_do_not_apply_are_ignored() {
        let never = json!({"type": "contains", "value": "a", "condition": {"var": "strict"}});
        let other = json!({"type": "contains", "value": "b"});
        for (criteria, output, valid, strictly) in [
            (json!({"not": never}), "a", true, false),
            (json!({"not": {"not": never}}), "x", true, false),
            (json!({"not": {"and": [never]}}), "a", true, false),
            (json!({"or": [never, other]}), "x", false, false),
            (json!({"or": [never, other]}), "a", false, true),
            (json!({"or": [never]}), "x", true, false),
            (json!({"and": [never, other]}), "b", true, false),
            (json!([never]), " ", false, false),
        ] {
            let read = criteria_of(&criteria).unwrap();
            for (context, valid) in [(json!({}), valid), (json!({"strict": true}), strictly)] {
                let validation = Validation::of(Some(&read), output, context.as_object().unwrap());
                assert_eq!(validation.valid, valid, "{criteria}: {output:?} with {context}");
                assert!(valid || !validation.suggestions.is_empty(), "{criteria}");
            }
        }
    }

    #[test]
    fn without_rules_an_output_must_not_be_blank() {
        let none = criteria_of(&json!([])).unwrap();
        for (output, valid) in [("x", true), (" \n\t", false), ("", false)] {
            for criteria in [None, Some(&none)] {
                let validation = Validation::of(criteria, output, &Default::default());
                assert_eq!(validation.valid, valid, "{output:?}");
            }
        }
    }
}
